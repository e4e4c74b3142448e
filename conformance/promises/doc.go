// Package promises tests Penstock's promises on a real cluster with real Envoys. Each promise is an
// entry in promises_test.go. Penstock is installed from manifests/install, with the permissions
// granted there.
//
// The tests share one lab whose API server keeps an audit log. Tests about one Gateway have a
// namespace each and run in parallel. Tests that kill or replace the control plane run after them,
// one after the other. The last tests read the audit log of all tests. Finally a test build
// replaces Penstock, for faults that no user causes (faults_test.go); make soak repeats these
// faults (soak_test.go). No test asserts a time; deadlines only end tests that hang.
//
// Package chart tests the Helm charts, apiserver the behaviour of the API server, and members a set
// of three clusters. Command zeroloss sends requests during random changes and reports lost
// requests. Run them with `make test-lab`, or `make build labs` and `go test -tags lab ./promises`.
// To run one: -run 'Promises/.*/HorizontalPodAutoscaler'.
package promises
