// Command coredns is CoreDNS with the plugins that a lab and the Corefile of the conformance suites
// need. All plugins would link the clients of three clouds.
//
// It is a separate module because its versions of Kubernetes' modules differ from ours. `make labs`
// builds it; the lab's tests query it.
package main
