// Package peers exchanges facts between the processes of one control plane, over
// multicluster/channel, with a file for each topic. The leader so has the facts for statuses, and
// no Envoy loses an endpoint that another process's picker still names.
//
// Invariants: every part works without peers. When a peer disconnects, its values are dropped,
// except for NACKs, which stay for nackRetention.
package peers
