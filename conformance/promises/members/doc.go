// Package members tests that faults and changes of the control side of a cluster set cost no
// request. In a lab of three clusters, two export pools to the third. In each test plain, streamed
// and 1 MB requests go on while Penstocks are killed, links cut, exports withdrawn, modes changed,
// members drained, removed and added, and clocks set apart (by a test build of penstock). In
// data_test.go a whole cluster is lost, and in parts_test.go its pickers, servers or gateways
// alone. The other exporter then serves all requests that are sent after the loss. parts_test.go
// also fills all clusters at once, and changes the selection among them. In hub_test.go a hub makes
// the imports, and is killed. In peerlistener_test.go requests go through the peer listeners of
// fleets.
//
// Each exporter has two pools of the same model servers: chat has Penstock's own picker and fails
// open, epp has a picker of its own (the chart's) and fails closed. The clusters name the ranges of
// their pods.
//
// figures.go counts the requests of all tests; -figures prints the counts, for make
// bench-multicluster.
//
// The tests share the lab and run one after the other; each ends with the set as it was. Tests:
// make test-lab, or make build labs helm and go test -tags lab ./promises/members
package members
