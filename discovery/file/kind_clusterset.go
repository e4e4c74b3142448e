package file

import (
	"crypto/x509"
	"fmt"
	"net"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func clusterSetKind() *kind {
	return &kind{
		table:    store.ClusterSets,
		versions: []version{{v1alpha1.Group + "/" + v1alpha1.Version, nil}},
		crd:      "clustersets",
		check:    checkClusterSet,
	}
}

func checkClusterSet(o store.Object) []mistake {
	var c checks
	set := o.(*v1alpha1.ClusterSet)
	for i, cidr := range set.Spec.PodCIDRs {
		c.cidr(at("spec.podCIDRs", i), cidr)
	}
	if l := set.Spec.PeerListener; l != nil && l.Address != "" {
		if host, port, err := net.SplitHostPort(l.Address); err != nil || host == "" || port == "" {
			c.wrong("spec.peerListener.address", fmt.Sprintf("%.100q is no address", l.Address),
				"write HOST:PORT, or leave it out if members reach the Gateway at its own address")
		}
	}
	for i, m := range set.Spec.Members {
		field := at("spec.members", i)
		ofHub := m.Kubeconfig != nil || m.ClusterProfile != nil
		if m.Name == set.Spec.Cluster && !ofHub {
			c.wrong(field+".name", fmt.Sprintf("%s is this cluster itself", m.Name),
				"remove the member, or correct spec.cluster")
		}
		for j, cidr := range m.Allow.PodCIDRs {
			c.cidr(at(field+".allow.podCIDRs", j), cidr)
		}
		for j, cidr := range m.Allow.Addresses {
			c.cidr(at(field+".allow.addresses", j), cidr)
		}
		if ofHub || m.Peer == nil { // without any of them, the schema has a rule
			continue
		}
		if host, port, err := net.SplitHostPort(m.Peer.Address); err != nil || host == "" || port == "" {
			c.wrong(field+".peer.address", fmt.Sprintf("%.100q is no address", m.Peer.Address), "write HOST:PORT")
		}
		if !x509.NewCertPool().AppendCertsFromPEM([]byte(m.Peer.Bundle)) {
			c.wrong(field+".peer.bundle", "it has no PEM certificate",
				"write the bundle that `penstock clusters show` prints there")
		}
	}
	return c.found
}
