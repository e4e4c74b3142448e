// Package peers exchanges facts between the processes of one control plane, over
// multicluster/channel. Each topic has a file. So the process that writes status has the facts of
// all processes, and no Envoy loses an endpoint that another process's picker still names.
//
// Invariants: every part works without peers. When a peer disconnects, its values are dropped,
// except for NACKs, which stay for nackRetention.
package peers
