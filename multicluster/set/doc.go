// Package set runs this cluster's part in its cluster set: it follows the ClusterSet, exports pools
// to members, and stores members' exports. It connects the packages of multicluster to each other
// and to the process.
//
//	set.go          Set: its parts, and Run
//	follow.go       store changes
//	identity.go     this cluster's identity
//	received.go     updates of members
//	lead.go         publishing, and serving members
//	exported.go     pools that members may pick from
//	membership.go   Gateways' identity and trust
//	parents.go      Gateways' addresses for other clusters
//	admin.go        Status, for clusters list
//	join.go         checks of a new member
//	name.go         the name of this cluster
//	others.go       the ClusterSet in use, and findings about others
//	metrics.go      Status for Prometheus
//	mistakes.go     findings about members
//	keep.go         exports across restarts
//	records.go      records as files
//	kube*.go        records and imports in the objects of an API server
//
// A member exchanges exports with this process if it has a peer with an address (exchanges).
// `penstock hub` reads and writes members with a kubeconfig or a clusterProfile; this package
// reports a finding about them.
//
// Follow is called after the commit of a change. So exports have only endpoints that Envoys here
// have, too.
//
// Invariants: without a ClusterSet and a name of this cluster, nothing runs and no port is served.
// The first ClusterSet with a name fixes this cluster's identity until the process ends. A changed
// name is reported, and takes effect at the next start. Members are served over mTLS only. A failed
// read or write affects nothing else; it is a finding on the ClusterSet or one log line.
//
// # Measurements
//
// Most updates of members are renewals. An update causes a report on the ClusterSet only if it
// changes the report (shown in received.go), and members' certificates are decoded once a minute
// (mistaken). A record is encoded when it changes, not at each write of its file. Members exchange
// CBOR, at a sixth of JSON's cost, which was 14 % of an importer's CPU. Reports wait 20 ms. In a
// single run on a busy machine, a hundred members that connect at once and their importer took 1.2
// s of CPU until the last Offer. They took 1.8 s while ages were written with exports, reports were
// compared for all members, and regular expressions checked names. make bench-multicluster prints
// mc_sync, the time in proportion to streaming the same bytes.
//
// Tests: go test ./multicluster/set; with two processes:
// cmd/penstock/clusters_test.go
package set
