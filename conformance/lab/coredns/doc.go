// Command coredns is CoreDNS with only the plugins that a lab and the Corefile of the conformance
// suites need: the full set would link the client libraries of three clouds.
//
// It is a separate module because its versions of Kubernetes' modules differ from ours. `make labs`
// builds it.
package main
