// Command coredns is CoreDNS with the plugins that a lab needs: a cluster's own names, and what the conformance suites' own
// Corefile says. The whole of it would link the clients of three clouds.
//
// It is a module of its own, because its versions of Kubernetes' modules are not ours. `make lab` builds it; the lab's
// tests ask it.
package main
