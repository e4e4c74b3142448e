// Package installed starts labs in which Penstock is installed as its users install it: from manifests/install, with the
// image standing for bin/penstock.
//
// conformance/certify, conformance/bench and the tests of conformance/promises use it. It belongs to none of them: a lab knows
// nothing of Penstock.
//
// Tests: it is what `make conformance`, `make bench-kube` and `make test-lab` run on.
package installed
