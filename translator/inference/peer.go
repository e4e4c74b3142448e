package inference

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/translator/model"
)

// trusted reports whether this cluster has a certificate for members of the cluster set, and the
// bundle of a member.
func trusted(r store.Reader, member string) bool {
	m, ok := store.Memberships.Get(r, store.OwnMembership)
	return ok && slices.ContainsFunc(m.Members, func(o store.Member) bool { return o.Name == member })
}

// throughPeers decides on an exporting cluster in ParentMode with peer listeners. If this cluster
// is a member, only these are used. handled is false if the ordinary gateways decide.
func throughPeers(
	r store.Reader, imp *model.Import, m *model.ImportMember, c *inferenceapi.ImportedCluster, names hostNames,
	allowed ranges, field string,
) (handled bool) {
	isPeer := func(p inferenceapi.ParentImport) bool { return p.Peer }
	if !slices.ContainsFunc(c.Parents, isPeer) {
		return false
	}
	if !trusted(r, c.Name) {
		if slices.ContainsFunc(c.Parents, func(p inferenceapi.ParentImport) bool { return !p.Peer }) {
			return false
		}
		m.Reason, m.Problem = reasonNotSupported,
			"its gateways take requests of members of its cluster set alone, and the ClusterSet here has no "+
				"certificates of "+c.Name
		if m.NotReady != "" {
			return true // for example after it left the set, while its export drains
		}
		imp.Findings = append(imp.Findings, report.Finding{
			Severity: report.Error, Owner: imp.Ref, Field: field + ".parents",
			Problem: "cluster " + c.Name + ": " + m.Problem,
			Fix: "add it to the ClusterSet here (penstock clusters join), or have the pool exported for clusters " +
				"that are no members",
		})
		return true
	}
	m.Cluster, m.MaxGateways = model.PeerCluster(imp.Ref.Namespace, imp.Ref.Name, c.Name), 0
	m.Peer = model.PeerAuthority(imp.Ref.Namespace, imp.Ref.Name, c.Name)
	var denied []outside
	for i, parent := range c.Parents {
		if !parent.Peer || notReady(parent.Conditions) != "" {
			continue
		}
		addrs, outside := dialable(r, allowed, names, parent.Service, fmt.Sprintf("%s.parents[%d].service", field, i),
			func(string) bool { return false })
		m.Parents, denied = append(m.Parents, addrs...), append(denied, outside...)
	}
	imp.Findings = append(imp.Findings, notAllowed(imp.Ref, c.Name, denied)...)
	if m.Parents = distinct(m.Parents); len(m.Parents) == 0 {
		unaddressed(imp, m, denied, field+".parents", "no peer listener of its gateways has a known address",
			"have spec.peerListener.address of its ClusterSet name an address that is reached from here, and allow "+
				"it (--allowed-cidrs, allow.addresses of the member)")
	}
	return true
}

// unusableHostname sets the Host of requests to a member's ordinary gateways, or returns why a
// gateway is not usable. others is set if the member already has another gateway.
func unusableHostname(m *model.ImportMember, hostname string, others bool) string {
	_, notIP := netip.ParseAddr(hostname)
	switch {
	case hostname != "" && (notIP == nil || len(validation.IsDNS1123Subdomain(hostname)) > 0):
		return fmt.Sprintf("%.100q is not a host name", hostname)
	case others && hostname != m.Hostname:
		return fmt.Sprintf("it has hostname %q, and another one of the cluster has %q", hostname, m.Hostname)
	}
	m.Hostname = hostname
	return ""
}
