// Package set runs this cluster's part in its cluster set: it follows the ClusterSet,
// exports pools to members, and puts members' exports into the store. It connects the packages of
// multicluster to each other and to the process.
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
//	others.go       which ClusterSet is in use
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
// Follow is called after the commit of a change: an export never names an endpoint that this
// cluster's own configuration lacks.
//
// Invariants: without a ClusterSet and a name of this cluster, nothing runs and no port is served.
// The first ClusterSet with a name for this cluster fixes the identity until the process ends; a
// changed name is reported and takes effect at the next start. Members are served over mTLS only. A
// failed read or write affects nothing else; it is a finding on the ClusterSet or one log line.
//
// # Measurements
//
// Most updates of members are renewals. An update causes a report on the ClusterSet only if it
// changes the report (shown in received.go), and members' certificates are decoded once a minute
// (mistaken). A record is encoded when it changes, not at each write of its file. When a hundred
// members connected at once, an importer took 1.1 s of CPU until it had their exports: garbage
// collection 24 %, JSON 14 %, handshakes 14 %, registry 9 %, Offers 7 %, reports 7 %, translation 6
// %. Therefore members exchange CBOR, at a sixth of JSON's cost, and reports wait 20 ms. Of both
// sides together, until the last Offer, an export was then written twice (once for its age, 10 %),
// reports to members were judged for all of them, and names passed regular expressions. Without
// these, both sides take 1.2 s in place of 1.8 s: translation 20 %, garbage collection 19 %,
// handshakes 12 %, members' responses 8 %, registry 6 %, records and the board 4 % each, CBOR 3 %.
//
// Tests: go test ./multicluster/set; with two processes:
// cmd/penstock/clusters_test.go
package set
