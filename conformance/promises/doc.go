// Package promises tests Penstock's promises (promises_test.go) on a real cluster with real Envoys.
// Penstock is installed from manifests/install, with the permissions granted there.
//
// The tests share one lab. Tests about one Gateway have a namespace each and run in parallel. Later
// tests kill or replace the control plane, or read the audit log of all tests. Finally, a test
// build that injects faults replaces Penstock (faults_test.go, soak_test.go). No test asserts a
// time.
//
// Run them with `make test-lab`, or `make build labs` and `go test -tags lab ./promises`. To run
// one: -run 'Promises/.*/HorizontalPodAutoscaler'.
package promises
