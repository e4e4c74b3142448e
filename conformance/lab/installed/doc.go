// Package installed starts labs in which Penstock is installed as its users install it: from manifests/install (Start), with the
// image standing for bin/penstock; or those in which whoever called installs it (Prepare).
//
// conformance/suites/certify, conformance/bench, conformance/promises and conformance/promises/chart use it. It belongs to none: a lab knows nothing of Penstock.
//
// Tests: it is what `make conformance`, `make bench-kube` and `make test-lab` run on.
package installed
