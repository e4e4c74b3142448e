// Package balancer assigns addresses to Services of type LoadBalancer, as a cloud provider does;
// kube-proxy serves them. It uses a spec.loadBalancerIP that is in the range and free, and ignores
// Services with a loadBalancerClass. A Service keeps its address until it is deleted.
//
// Package cluster runs the balancer. Test alone with `go test ./lab/balancer`.
package balancer
