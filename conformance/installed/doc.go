// Package installed starts labs in which Penstock is installed as its users install it: from manifests/install, with the
// image standing for bin/penstock.
//
// conformance/certify and conformance/bench use it. It belongs to neither: a lab knows nothing of Penstock.
//
// Tests: it is what `make conformance` and `make bench-kube` run on.
package installed
