// Package promises holds what Penstock promises to whoever installs it on Kubernetes, as tests: each function in
// promises_test.go is one promise, and keeps it on a real cluster with real Envoys, installed from manifests/install, under
// the permissions that these grant.
//
// All share one lab, whose API server notes who asked for what. Promises about one Gateway have a namespace each and run side
// by side; those for which the control plane itself is killed or replaced come after them, one by one; the last reads what was
// noted of all. What a test asserts by a clock of its own is only that nothing takes forever.
//
// Tests: make test-lab, or `make build labs` and go test -tags lab ./promises; one of them: -run 'Promises/.*/autoscaler'.
package promises
