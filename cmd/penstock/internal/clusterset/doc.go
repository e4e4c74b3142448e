// Package clusterset runs this cluster's part in its cluster set: it follows the ClusterSet, exports pools to the members, and keeps what
// they export in the store. The parts are in multicluster; this package connects them to each other and to the process.
//
//	clusterset.go   Set: its parts, and Run            follow.go     what a change of the store changes
//	identity.go     who this cluster is                received.go   what members publish
//
// It is a part of delivery, at the stage that reads what is committed: an export never names an endpoint that is not in this cluster's own
// configuration yet.
//
// Invariants: without a ClusterSet nothing runs, and no port is served. The first ClusterSet decides who this cluster is, until the process
// ends: a change of its name, or trust domain, is reported and takes effect at the next start. Members are served over mTLS alone.
//
// Tests: go test ./cmd/penstock/internal/clusterset; with two processes: cmd/penstock/clusters_test.go
package clusterset
