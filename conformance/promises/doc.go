// Package promises tests Penstock's promises on Kubernetes, each an entry in promises_test.go, on a
// real cluster with real Envoys. Penstock is installed from manifests/install, with the permissions
// granted there.
//
// The tests share one lab whose API server keeps an audit log. Tests about one Gateway have a
// namespace each and run in parallel. Tests that kill or replace the control plane run after them,
// one after the other. The last ones read the audit log of all. Finally a test build replaces
// Penstock, for faults that happen by themselves (faults_test.go); make soak repeats them
// (soak_test.go). No test asserts a time; deadlines only end tests that hang.
//
// Packages chart and apiserver test the Helm chart and the behaviour of the API server, members
// three clusters of a set; command zeroloss sends requests during random changes and reports lost
// ones. Run them with `make test-lab`, or `make build labs` and `go test -tags lab ./promises`. To
// run one: -run 'Promises/.*/HorizontalPodAutoscaler'.
package promises
