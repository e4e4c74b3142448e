// Package balancer gives Services of type LoadBalancer their addresses, which kube-proxy serves: the part of a cloud provider
// that a lab needs. spec.loadBalancerIP is honoured if it is in the range and free; a Service with a loadBalancerClass is
// somebody else's. An address stays with its Service, and is free again when the Service is gone.
//
// Decisions are a pure function of all Services (assign), so that there is nothing to get out of step. It is called by
// cluster. Test alone with `go test ./lab/balancer`.
package balancer
