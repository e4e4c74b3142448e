// Package installed starts labs with Penstock. Start installs Penstock from manifests/install, as
// users do. Prepare only provides the image; callers then install Penstock with Chart in one
// cluster, or with Members in each cluster of a cluster set. `make conformance`, `make bench-kube`
// and `make test-lab` use the package.
package installed
