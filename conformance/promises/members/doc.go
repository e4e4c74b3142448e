// Package members tests that what happens to the control side of a cluster set costs no request:
// three clusters in a lab, of which two export pools to the third. In each test plain, streamed and
// 1 MB requests go on while Penstocks are killed, links cut, exports withdrawn, modes changed,
// members drained, removed and added, and clocks set apart (by a test build of penstock). In
// data_test.go a whole cluster is lost, in parts_test.go its pickers, servers or gateways alone:
// the other one serves requests that are sent after that. There, too, all clusters are full at
// once, and the selection among them changes. In hub_test.go a hub makes the imports, and is
// killed. In peerlistener_test.go requests go through the peer listeners of fleets.
//
// Each exporter has two pools of the same model servers: chat has Penstock's own picker and fails
// open, epp has a picker of its own (the chart's) and fails closed. The clusters name the ranges of
// their pods.
//
// figures.go counts the requests of all tests; -figures has them printed, for make
// bench-multicluster.
//
// The tests share the lab and run one after the other; each ends with the set as it was. Tests:
// make test-lab, or make build labs helm and go test -tags lab ./promises/members
package members
