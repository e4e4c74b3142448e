// Package multicluster holds what passes between Penstock processes, of one cluster and of several: channel is how they
// publish and subscribe, learned shares the endpoints that remote pickers name. Export, hub, federation and selection
// between clusters will be beside them.
package multicluster
