// Package multicluster is the house of what happens between clusters. What an importing cluster needs to follow a remote
// picker is in learned. Export, hub, federation and selection between clusters will be its neighbours.
package multicluster
