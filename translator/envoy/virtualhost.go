package envoy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// Encoded is an encoded, immutable virtual host.
type Encoded struct {
	Host   string
	Body   []byte // an encoded envoy.config.route.v3.VirtualHost
	Refs   []resource.Ref
	Owners []report.Ref
}

// VirtualHost encodes and checks one host of a chain.
func VirtualHost(vh *model.VirtualHost) (*Encoded, error) {
	b := &builder{hops: vh.Chain == model.HopListener}
	host := &routev3.VirtualHost{
		Name:    vh.Host,
		Domains: []string{vh.Host},
		Routes:  b.routes(vh),
	}
	if gatedWhole(vh) {
		b.gated(&host.TypedPerFilterConfig, gateOf{policies: vh.Gates, reaches: vh.Routes[0].Reaches,
			watched: vh.Routes[0].Watched})
	}
	out, err := b.encoded(host, vh.Owners)
	if err != nil {
		return nil, fmt.Errorf("virtual host %s of %s: %w", vh.Host, vh.Chain, err)
	}
	return out, nil
}

func (b *builder) encoded(host *routev3.VirtualHost, owners []report.Ref) (*Encoded, error) {
	err := b.err
	if err == nil {
		err = checkMessage(host)
	}
	var body []byte
	if err == nil {
		body, err = resource.Marshal(host)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(b.refs, resource.Ref.Compare)
	return &Encoded{Host: host.Name, Body: body, Refs: slices.Compact(b.refs), Owners: owners}, nil
}

func (b *builder) routes(vh *model.VirtualHost) []*routev3.Route {
	var routes []*routev3.Route
	scans := map[string]bool{}
	addScan := func(r *model.Route) {
		if scan := b.scanRoute(vh, r); scan != nil {
			match, err := resource.Marshal(scan.Match)
			if err != nil {
				b.fail("route %s: %v", r.Name, err)
			}
			if !scans[string(match)] {
				scans[string(match)] = true
				b.gateRoute(vh, scan, gateOf{policies: vh.Gates})
				b.gateScan(vh, scan)
				routes = append(routes, scan)
			}
		}
	}
	for i := range vh.Routes {
		r := &vh.Routes[i]
		addScan(r)
		for _, own := range b.route(vh, r) {
			hoistReason(own)
			b.gateRoute(vh, own, gateOf{policies: r.Gates, reaches: r.Reaches, lists: lists(r, own),
				watched: r.Watched})
			b.gateWait(r, own)
			plainUsage(r, own)
			routes = append(routes, own)
		}
	}
	if len(scans) > 0 {
		if list := b.hostModelsRoute(vh); list != nil {
			b.gateRoute(vh, list, gateOf{policies: vh.Gates, reaches: reachesAny(vh), lists: true})
			routes = append(routes, list)
		}
		tasks := modelTasks(vh)
		for _, r := range unscanned(vh, tasks) {
			addScan(r)
		}
		for _, none := range append(otherPaths(tasks), noModel(vh)) {
			b.gateRoute(vh, none, gateOf{policies: vh.Gates})
			routes = append(routes, none)
		}
		holdScanned(routes)
	}
	return routes
}

// With 5,000 hosts, a change encodes one block of about 300 hosts again. More blocks would enlarge
// the many route configurations with few hosts.
const blocks = 16

// BlockOf returns the block of a host. Names that differ only in case share a block, because Envoy
// treats them as duplicates.
func BlockOf(host string) int { return int(xxhash.Sum64String(strings.ToLower(host)) % blocks) }

// Block is an immutable group of virtual hosts of a route configuration.
type Block struct {
	hosts []string
	part  *resource.Part
}

// Equal reports whether two blocks are equal.
func (b *Block) Equal(o *Block) bool { return b == o || b != nil && o != nil && b.part.Equal(o.part) }

const virtualHostsField = 2

// NewBlock joins virtual hosts. A duplicate host is an error, because Envoy would reject it.
func NewBlock(hosts []*Encoded) (*Block, error) {
	hosts = slices.SortedFunc(slices.Values(hosts), func(a, b *Encoded) int { return cmp.Compare(a.Host, b.Host) })
	b := &Block{hosts: make([]string, len(hosts))}
	lower := make([]string, len(hosts))
	size, refs, owners := 0, 0, 0
	for i, h := range hosts {
		b.hosts[i], lower[i] = h.Host, strings.ToLower(h.Host)
		size += protowire.SizeTag(virtualHostsField) + protowire.SizeBytes(len(h.Body))
		refs, owners = refs+len(h.Refs), owners+len(h.Owners)
	}
	slices.Sort(lower)
	for i := 1; i < len(lower); i++ {
		if lower[i-1] == lower[i] {
			return nil, fmt.Errorf("two virtual hosts answer for %s", lower[i])
		}
	}
	body := make([]byte, 0, size)
	allRefs, allOwners := make([]resource.Ref, 0, refs), make([]report.Ref, 0, owners)
	for _, h := range hosts {
		body = protowire.AppendTag(body, virtualHostsField, protowire.BytesType)
		body = protowire.AppendBytes(body, h.Body)
		allRefs, allOwners = append(allRefs, h.Refs...), append(allOwners, h.Owners...)
	}
	b.part = resource.NewPart(body, allRefs, allOwners)
	return b, nil
}

// RouteConfiguration joins blocks of virtual hosts of the chain called name. Unknown hosts get
// Envoy's 404.
func RouteConfiguration(name string, chain model.Chain, hosts ...*Block) (*resource.Resource, error) {
	b := &builder{}
	rc := &routev3.RouteConfiguration{
		Name:                     model.RoutesName(name),
		IgnorePortInHostMatching: true,
		TypedPerFilterConfig:     b.ungated(),
		RequestHeadersToRemove:   stageHeaders,
	}
	if b.err != nil {
		return nil, fmt.Errorf("route configuration %s: %w", name, b.err)
	}
	if m := misdirected(chain.Misdirected, hosts); m != nil {
		rc.VirtualHosts = []*routev3.VirtualHost{m}
	}
	return routesOf(rc, hosts)
}

func routesOf(rc *routev3.RouteConfiguration, hosts []*Block) (*resource.Resource, error) {
	head, err := resource.Marshal(rc)
	if err != nil {
		return nil, fmt.Errorf("route configuration %s: %w", rc.Name, err)
	}
	parts := make([]*resource.Part, 0, 1+len(hosts))
	parts = append(parts, resource.NewPart(head, nil, nil))
	for _, b := range hosts {
		parts = append(parts, b.part)
	}
	return resource.FromParts(resource.RouteConfiguration, rc.Name, parts...), nil
}

// The virtual host misdirected answers 421 for hosts of other listeners of the port. The client
// then opens another connection (Gateway API, listener isolation; RFC 9110, 15.5.20).
func misdirected(domains []string, hosts []*Block) *routev3.VirtualHost {
	own := func(d string) bool {
		return slices.ContainsFunc(hosts, func(b *Block) bool {
			_, found := slices.BinarySearch(b.hosts, d)
			return found
		})
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
