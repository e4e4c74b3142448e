// Package multicluster groups the packages that connect Penstock processes of one or several
// clusters.
//
//	channel      publish and subscribe
//	learned      the endpoints that remote pickers name
//	registry     members of the cluster set, their exports, leases
//	fault        faults that the simulation must detect
//	export       which pools this cluster exports, and how others reach them
//	federation   members exchange exports
//	imports      members' exports, as objects that translation reads
//	selection    which cluster of an import a request goes to
//	set          connects the packages above to a process: this cluster's membership in its set
//	hub          penstock hub: reads and writes members' API servers; hub/decide: what it writes
//	traffic      state of the traffic between clusters: load, failback, attempts, parents
package multicluster
