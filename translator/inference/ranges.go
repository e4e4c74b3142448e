package inference

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
)

// ranges restricts an exporting cluster's addresses to the ranges that the ClusterSet allows the
// cluster, and to a PoolPolicy's ranges.
type ranges struct {
	member   string
	prefixes []netip.Prefix
	policy   *v1alpha1.PoolPolicy
	field    string
	narrow   []netip.Prefix
	exporter []netip.Prefix
}

func allowedFor(r store.Reader, namespace, name, cluster string) (servers, pods ranges) {
	o, ok := store.Offers.Get(r, objectid.Join(namespace, store.OfferName(name, cluster)))
	if !ok {
		return ranges{}, ranges{}
	}
	at, _ := parseRanges(o.Allowed) // the ranges were validated before
	podRanges, _ := parseRanges(o.Pods)
	return ranges{member: cluster, prefixes: at}, ranges{member: cluster, prefixes: podRanges}
}

func (a ranges) narrowed(policy *v1alpha1.PoolPolicy, field string) (ranges, []report.Finding) {
	if policy == nil {
		return a, nil
	}
	list := policy.Spec.Remote.PodCIDRs
	if field == fieldAddresses {
		list = policy.Spec.Remote.Addresses
	}
	var findings []report.Finding
	a.narrow, findings = checkedRanges(store.PoolPolicies.Ref(policy), field, list)
	if len(list) > 0 {
		a.policy, a.field = policy, field
	}
	return a, findings
}

const (
	fieldPodCIDRs  = "spec.remote.podCIDRs"
	fieldAddresses = "spec.remote.addresses"
)

const (
	fieldMaxGateways   = "spec.remote.maxGateways"
	defaultMaxGateways = 4
)

func checkedRanges(owner report.Ref, field string, cidrs []string) (list []netip.Prefix, findings []report.Finding) {
	list, bad := parseRanges(cidrs)
	for _, cidr := range bad {
		findings = append(findings, errorOn(owner, field, fmt.Sprintf("%.64q is not an address range", cidr),
			"write it as 10.0.0.0/8"))
	}
	return list, findings
}

// lists returns lists of ranges. In each list, a range must contain an allowed address. If all of a
// policy's ranges are invalid, its list is empty and allows nothing.
func (a ranges) lists() (out [][]netip.Prefix) {
	if a.policy != nil {
		out = append(out, a.narrow)
	}
	for _, list := range [][]netip.Prefix{a.exporter, a.prefixes} {
		if len(list) > 0 {
			out = append(out, list)
		}
	}
	return out
}

func (a ranges) outside(ip netip.Addr) string {
	within := func(list []netip.Prefix) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) })
	}
	switch {
	case len(a.prefixes) > 0 && !within(a.prefixes):
		return "is outside " + a.ofMember()
	case a.policy != nil && !within(a.narrow):
		return "is outside " + a.ofPolicy()
	case len(a.exporter) > 0 && !within(a.exporter):
		return "is outside podCIDRs of the exporting cluster"
	}
	return ""
}

func (a ranges) ofMember() string { return outsideClusterSet + a.member }

func (a ranges) ofPolicy() string {
	return fmt.Sprintf("%s of %s", a.field, store.PoolPolicies.Ref(a.policy))
}

const outsideClusterSet = "the ranges that the ClusterSet allows member "

func (a ranges) disjoint() string {
	switch {
	case len(a.exporter) == 0:
	case len(a.prefixes) > 0 && !overlap(a.exporter, a.prefixes):
		return "podCIDRs of the exporting cluster are outside " + a.ofMember()
	case a.policy != nil && !overlap(a.exporter, a.narrow):
		return "podCIDRs of the exporting cluster are outside " + a.ofPolicy()
	}
	if a.policy != nil && len(a.prefixes) > 0 && !overlap(a.narrow, a.prefixes) {
		return a.ofPolicy() + " is outside " + a.ofMember()
	}
	return ""
}

func overlap(a, b []netip.Prefix) bool {
	return slices.ContainsFunc(a, func(p netip.Prefix) bool { return slices.ContainsFunc(b, p.Overlaps) })
}

func fixOutside(problem string) string {
	switch {
	case strings.Contains(problem, noCleartext):
		return "have the Gateway there listen with HTTPS, or write spec.peerListener in the ClusterSet there, " +
			"or a BackendTLSPolicy for the cluster here; or write allow: {cleartext: true} for the member in the " +
			"ClusterSet here"
	case strings.Contains(problem, outsideClusterSet):
		return "add the range to allow.podCIDRs (model servers) or allow.addresses (pickers, gateways) of the member " +
			"in the ClusterSet here"
	case strings.Contains(problem, "spec.remote."):
		return "add the range to that list, or have the cluster use another one"
	case strings.Contains(problem, "podCIDRs of the exporting cluster"):
		return "correct podCIDRs of the exporting cluster"
	}
	return addresses.Fix(problem)
}

func parseRanges(cidrs []string) (list []netip.Prefix, bad []string) {
	for _, cidr := range cidrs {
		p, err := addresses.ParseRange(cidr)
		if err != nil {
			bad = append(bad, cidr)
			continue
		}
		list = append(list, p)
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return slices.Compact(list), bad
}

const noCleartext = "is reached in cleartext, which the ClusterSet does not allow member "

// cleartextAllowed reports whether requests to an exporting cluster's gateways may be in cleartext.
// If another cluster exports the pool, the ClusterSet decides. With a BackendTLSPolicy, all
// requests use TLS.
func cleartextAllowed(r store.Reader, id model.ClusterID) bool {
	o, member := store.Offers.Get(r, objectid.Join(id.Namespace, store.OfferName(id.Name, id.Member)))
	return !member || o.Cleartext || gatewayapi.BackendPolicy(r, id) != nil
}

func encrypted(addrs []model.RemoteAddress, field, member string) (out []model.RemoteAddress, no []outside) {
	for _, a := range addrs {
		if a.Cleartext {
			no = append(no, outside{field, fmt.Sprintf("address %s %s%s", a.Addr, noCleartext, member)})
		} else {
			out = append(out, a)
		}
	}
	return out, no
}
