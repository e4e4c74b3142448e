// Package members tests that faults and changes of the control side of a cluster set cost no
// request. In a lab of three clusters, two export pools to the third, while Penstocks are killed,
// links are cut, members are drained, and so on. Other tests stop an exporter's pickers, servers or
// gateways, or the whole exporter. The other exporter must then serve all later requests
// (data_test.go, parts_test.go).
//
// Each exporter has two pools of the same model servers: chat has Penstock's picker and fails open,
// epp has the chart's picker and fails closed. -figures prints the counts of requests, for make
// bench-multicluster.
//
// The tests share the lab and run one after the other; each restores the set. Tests: make test-lab,
// or make build labs helm and go test -tags lab ./promises/members
package members
