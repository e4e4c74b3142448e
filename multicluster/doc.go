// Package multicluster holds what passes between Penstock processes, of one cluster and of several.
//
//	channel      publish and subscribe
//	learned      the endpoints that remote pickers name
//	registry     members of the cluster set, what they export, leases
//	export       which pools this cluster exports, and how others reach them
//	federation   members exchange exports
//	imports      what members export, as objects that translation reads
package multicluster
