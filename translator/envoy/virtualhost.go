package envoy

import (
	"cmp"
	"fmt"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/penstock-project/penstock/discovery/report"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// Encoded is one virtual host, ready to be copied into a route configuration. Immutable.
type Encoded struct {
	Host   string
	Body   []byte // an encoded envoy.config.route.v3.VirtualHost
	Refs   []resource.Ref
	Owners []report.Ref
}

// VirtualHost encodes one host of a chain. It checks what it has made, like all that make whole resources.
func VirtualHost(vh *model.VirtualHost) (*Encoded, error) {
	b := &builder{}
	host := &routev3.VirtualHost{
		Name:    vh.Host,
		Domains: []string{vh.Host},
		Routes:  b.routes(vh),
	}
	if byModel(vh) {
		b.scanModels(host)
	}
	if b.err != nil {
		return nil, fmt.Errorf("virtual host %s of %s: %w", vh.Host, vh.Chain, b.err)
	}
	if err := checkMessage(host); err != nil {
		return nil, fmt.Errorf("virtual host %s of %s: %w", vh.Host, vh.Chain, err)
	}
	body, err := resource.Marshal(host)
	if err != nil {
		return nil, fmt.Errorf("virtual host %s of %s: %w", vh.Host, vh.Chain, err)
	}
	slices.SortFunc(b.refs, resource.Ref.Compare)
	return &Encoded{Host: vh.Host, Body: body, Refs: slices.Compact(b.refs), Owners: vh.Owners}, nil
}

func (b *builder) routes(vh *model.VirtualHost) []*routev3.Route {
	var routes []*routev3.Route
	for i := range vh.Routes {
		routes = append(routes, b.route(vh, &vh.Routes[i])...)
	}
	return routes
}

// virtualHostsField is the number of RouteConfiguration.virtual_hosts.
const virtualHostsField = 2

// RouteConfiguration puts encoded virtual hosts together, without decoding them: one of thousands changes at a time.
// The name is that of the chain (or hop). Hosts of other listeners of the port (chain.Misdirected) answer 421; hosts
// that nobody knows get Envoy's 404.
func RouteConfiguration(name string, chain model.Chain, hosts []*Encoded) (*resource.Resource, error) {
	byHost := func(a, b *Encoded) int { return cmp.Compare(a.Host, b.Host) }
	if !slices.IsSortedFunc(hosts, byHost) {
		hosts = slices.Clone(hosts)
		slices.SortFunc(hosts, byHost)
	}
	rc := &routev3.RouteConfiguration{
		Name: name,
		// A Host header may carry the port; the backend still gets it as it was sent.
		IgnorePortInHostMatching: true,
	}
	if m := misdirected(chain.Misdirected, hosts); m != nil {
		rc.VirtualHosts = []*routev3.VirtualHost{m}
	}
	body, err := resource.Marshal(rc)
	if err != nil {
		return nil, fmt.Errorf("route configuration %s: %w", name, err)
	}
	size := 0
	for _, h := range hosts {
		size += protowire.SizeTag(virtualHostsField) + protowire.SizeBytes(len(h.Body))
	}
	body = slices.Grow(body, size)
	for _, h := range hosts {
		body = protowire.AppendTag(body, virtualHostsField, protowire.BytesType)
		body = protowire.AppendBytes(body, h.Body)
	}
	if err := checkHosts(body); err != nil { // each of them was checked when it was encoded
		return nil, fmt.Errorf("route configuration %s: %w", name, err)
	}
	refs, owners := named(hosts)
	return resource.FromBytes(resource.RouteConfiguration, name, body, refs, owners), nil
}

// named lists what hosts refer to and were made from, mostly without repeats. Of 5,000 hosts that change one at a time,
// sorting the repeats cost more than all the rest of the route configuration: hosts share few clusters, and neighbours
// their Gateway.
func named(hosts []*Encoded) (refs []resource.Ref, owners []report.Ref) {
	seen := map[resource.Type]map[string]struct{}{}
	for _, t := range resource.Types() {
		seen[t] = map[string]struct{}{}
	}
	owners = make([]report.Ref, 0, len(hosts)+1)
	before := &Encoded{}
	for _, h := range hosts {
		for i, r := range h.Refs {
			if i < len(before.Refs) && before.Refs[i] == r {
				continue
			}
			if _, ok := seen[r.Type][r.Name]; !ok {
				seen[r.Type][r.Name] = struct{}{}
				refs = append(refs, r)
			}
		}
		for i, o := range h.Owners {
			if i >= len(before.Owners) || before.Owners[i] != o {
				owners = append(owners, o)
			}
		}
		before = h
	}
	return refs, owners
}

// misdirected answers for hosts of other listeners of the same port, which a client asked for on a connection that it
// opened for this one: 421 makes it open another (Gateway API, listener isolation; RFC 9110, 15.5.20).
func misdirected(domains []string, hosts []*Encoded) *routev3.VirtualHost {
	own := func(d string) bool {
		return slices.ContainsFunc(hosts, func(h *Encoded) bool { return h.Host == d })
	}
	domains = slices.DeleteFunc(slices.Clone(domains), own)
	slices.Sort(domains)
	domains = slices.Compact(domains)
	if len(domains) == 0 {
		return nil
	}
	return &routev3.VirtualHost{
		Name:    "misdirected",
		Domains: domains,
		Routes: []*routev3.Route{{
			Name:   "misdirected",
			Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			Action: directResponse(&model.Direct{Status: 421}),
		}},
	}
}
