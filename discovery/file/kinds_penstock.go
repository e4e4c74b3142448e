package file

import (
	"crypto/x509"
	"fmt"
	"net"

	"github.com/penstock-project/penstock/manifests/about"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func checkClusterSet(c *checks, set *v1alpha1.ClusterSet) {
	c.cidrs("spec.podCIDRs", set.Spec.PodCIDRs)
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
		c.cidrs(field+".allow.podCIDRs", m.Allow.PodCIDRs)
		c.cidrs(field+".allow.addresses", m.Allow.Addresses)
		if ofHub || m.Peer == nil { // the schema rejects members with none of peer, kubeconfig and clusterProfile
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
}

func checkClusterProperty(c *checks, p *about.ClusterProperty) {
	if problem := v1alpha1.CheckClusterName(p.Spec.Value); p.Name == about.ClusterName && problem != "" {
		c.wrong("spec.value", problem, "write the name of this cluster in its cluster set, such as eu-west-1")
	}
}

func checkModelServers(c *checks, m *v1alpha1.ModelServers) {
	for i, s := range m.Spec.Servers {
		c.ipOrHost(at("spec.servers", i)+".address", s.Address)
	}
}

func checkPoolPolicy(c *checks, p *v1alpha1.PoolPolicy) {
	c.cidrs("spec.remote.podCIDRs", p.Spec.Remote.PodCIDRs)
	c.cidrs("spec.remote.addresses", p.Spec.Remote.Addresses)
	if p.Spec.Picker.Plugins != nil {
		_, problems := endpointpicker.Inline(p.Spec.Picker.Plugins)
		c.plugins("spec.picker.plugins.", problems)
	}
}
