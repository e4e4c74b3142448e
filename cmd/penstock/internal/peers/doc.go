// Package peers exchanges facts between the processes of one control plane, over
// multicluster/channel. Each topic has a file. The leader gets the facts for statuses, and Envoys
// keep each endpoint that another process's picker still names.
//
// Invariants: every part works without peers. When a peer disconnects, its values are dropped,
// except for NACKs, which stay for nackRetention.
package peers
