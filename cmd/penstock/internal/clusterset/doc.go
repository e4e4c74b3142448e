// Package clusterset runs this cluster's part in its cluster set: it follows the ClusterSet,
// exports pools to the members, and keeps what they export in the store. The parts are in
// multicluster; this package connects them to each other and to the process.
//
//	clusterset.go   Set: its parts, and Run            follow.go     what a change of the store changes
//	identity.go     who this cluster is                received.go   what members publish
//	lead.go         publishing, and serving members    exported.go   which pools other clusters may pick from
//	membership.go   what Gateways need to meet those of members
//	parents.go      Gateways as other clusters reach them
//	admin.go        Status, for clusters list          join.go       checks of a new member
//	name.go         the name of this cluster           others.go     which ClusterSet counts
//	metrics.go      the same for Prometheus            mistakes.go   findings about members that stay in use, or are not used
//	keep.go         what members export, over a restart, and endpoints in a process's own folder   records.go   the records as files
//	kube.go         the same in objects of an API server: imports (kubeimports.go), records (kuberecords.go), and what a hub writes (kubehub.go)
//
// A member exchanges exports with this process if it has a peer with an address (exchanges).
// `penstock hub` reads and writes members with a kubeconfig or a clusterProfile; here they are a
// finding.
//
// It is a part of delivery, at the stage that reads what is committed: an export never names an
// endpoint that is not in this cluster's own configuration yet.
//
// Invariants: without a ClusterSet, or a name of this cluster, nothing runs, and no port is served.
// The first ClusterSet with a name for this cluster decides who it is, until the process ends: a
// change of its name is reported and takes effect at the next start. Members are served over mTLS
// alone. A failure to read or to keep something affects nothing else, and is a finding on the
// ClusterSet or one line of the log.
//
// # What profiles taught
//
// Most updates of members are renewals. So an update has the ClusterSet reported on only if it
// changes what that shows (shown in received.go), and the members' certificates are decoded once a
// minute (mistaken). A record is encoded when it changes, not whenever the file with it is written.
// Where a hundred members connect at once, an importer took 1.1 s of CPU until it had their
// exports. The largest parts were garbage collection (24 %), JSON (14 %), handshakes (14 %), the
// registry (9 %), Offers (7 %), translation (6 %), and reports on each member and each import (7
// %). So members exchange CBOR, which costs a sixth of JSON, and what members do is reported once
// in 20 ms. Since then, garbage collection takes 32 % of the CPU until the importer is at rest,
// translation 18 %, the registry 9 %, the status file 7 %, handshakes 6 % (two with each member,
// which subscribes too), reports and records 4 % each, Offers 3 % and CBOR 2 %.
//
// Tests: go test ./cmd/penstock/internal/clusterset; with two processes:
// cmd/penstock/clusters_test.go
package clusterset
