// Package installed starts labs with Penstock. Start installs Penstock from manifests/install, as
// users do, with an image that runs bin/penstock. Prepare only provides the image. Callers then
// install Penstock with Chart in one cluster, or with Members in several clusters, which become
// members of one cluster set.
//
// Packages suites/certify, bench, promises, promises/chart and promises/members use it; package lab
// does not depend on Penstock.
//
// Tests: `make conformance`, `make bench-kube` and `make test-lab` run on it.
package installed
