package translator

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

// pickerHealth is the gRPC health service by which a picker says that it is the one to ask: followers of a
// leader-elected picker answer NOT_SERVING (FIELD_NOTES 1).
const pickerHealth = "envoy.service.ext_proc.v3.ExternalProcessor"

// cluster says what the cluster of a name is (model/names.go lists the names). False if its object is gone.
func (t *tables) cluster(r *graph.Reader, name string) (*model.Cluster, bool) {
	switch name {
	case model.OurPicker:
		c := &model.Cluster{Name: name, Protocol: model.GRPC, Own: true}
		if host := t.cfg.PickerName; host != "" {
			c.Key, c.TLS = model.OwnKey, &model.UpstreamTLS{SNI: host, SANs: []string{host}, Trust: model.OwnTrust}
		}
		return c, true
	case model.Collector:
		return &model.Cluster{Name: name, Protocol: model.GRPC}, true
	}
	base, last := model.BaseCluster(name)
	parts := model.SplitName(base)
	switch parts[0] {
	case "pool", "import", "parent":
		p, m, ok := t.poolOrParents(r, base, parts)
		if !ok {
			return nil, false
		}
		c := &model.Cluster{Name: name, Protocol: model.HTTP1, Owners: []report.Ref{m}}
		if p != nil {
			c = poolCluster(p, name, last)
		}
		if c.Fallback != model.FallbackHops { // hops are inside Envoy
			secure(c, backendPolicy(r, parts))
		}
		return c, true
	case "service", "grpc", "tcp", "passthrough", "picker":
		svc, ok := store.Services.Get(r, parts[1]+"/"+parts[2])
		if !ok {
			return nil, false
		}
		c := serviceCluster(svc, name, parts[0], model.PortOf(parts), backendPolicy(r, parts))
		c.TellsHealth = tellsHealth(name)
		return c, true
	case "import-picker":
		obj, c, ok := importedCluster(r, parts)
		if !ok || c.EndpointPicker == nil {
			return nil, false
		}
		out := &model.Cluster{Name: name, Protocol: model.GRPC, HealthService: pickerHealth, TellsHealth: tellsHealth(name), Owners: []report.Ref{store.InferencePoolImports.Ref(obj)}}
		for _, s := range c.EndpointPicker.Service {
			if len(s.Ports) > 0 && !inference.Cleartext(&s.Ports[0].AppProtocol) {
				out.TLS = &model.UpstreamTLS{Insecure: true}
			}
		}
		return out, true
	}
	return nil, false
}

// tellsHealth says whether the picker behind a cluster says itself whether it is the one to ask.
func tellsHealth(cluster string) bool { return strings.HasPrefix(cluster, model.HealthCluster("")) }

// poolCluster is the table of DESIGN, "What Envoy gets": what becomes of a request without a usable pick.
func poolCluster(p *model.Pool, name string, last bool) *model.Cluster {
	c := &model.Cluster{Name: name, Protocol: p.Protocol, Owners: p.Owners}
	spills, again := len(p.Spill) > 0 && !last, p.PicksAgain() && !last
	c.Hops = spills || again
	switch {
	case spills && p.ViaHops():
		c.Protocol, c.Fallback = model.HTTP1, model.FallbackHops
	case again:
		c.Fallback = model.FallbackAgain
	case spills && !p.FailOpen:
		c.Fallback = model.FallbackSpill
	case p.FailOpen:
		c.Fallback = model.FallbackPods
	default:
		c.Fallback = model.FallbackNone
	}
	return c
}

// serviceCluster is one port of a Service, used as a kind of cluster name says: "service", "grpc", "tcp", "passthrough" or
// "picker".
func serviceCluster(svc *corev1.Service, name, use string, port int32, policy *gatewayapi.BackendTLS) *model.Cluster {
	c := &model.Cluster{Name: name, Protocol: model.HTTP1, Owners: []report.Ref{store.Services.Ref(svc)}}
	i := slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if i < 0 {
		return c // nobody refers to it any more, or its endpoints are none
	}
	switch use {
	case "picker":
		c.Protocol, c.HealthService = model.GRPC, pickerHealth
		if !inference.Cleartext(svc.Spec.Ports[i].AppProtocol) {
			c.TLS = &model.UpstreamTLS{Insecure: true}
		}
	case "grpc":
		c.Protocol = model.H2C
	case "tcp", "passthrough":
		c.Protocol = model.TCP
	default:
		if protocol, ok := gatewayapi.ServiceProtocol(&svc.Spec.Ports[i], store.HTTPRoutes.Kind(), policy != nil); ok {
			c.Protocol = protocol
		}
	}
	secure(c, policy)
	return c
}

// assignment lists the endpoints of the cluster of a name.
func (t *tables) assignment(r *graph.Reader, name string) (*model.Assignment, bool) {
	a := &model.Assignment{Cluster: name}
	switch name {
	case model.OurPicker:
		a.Endpoints = endpoints(t.cfg.Pickers)
		if key := t.cfg.PickerService; key != "" {
			a.Endpoints = endpoints(sliceEndpoints(store.EndpointSlices.By(r, store.ByService, key), t.cfg.PickerPort))
		}
		return a, true
	case model.Collector:
		a.Endpoints = endpoints([]netip.AddrPort{t.cfg.Collector})
		return a, true
	}
	base, last := model.BaseCluster(name)
	parts := model.SplitName(base)
	switch parts[0] {
	case "pool", "import", "parent":
		p, owner, ok := t.poolOrParents(r, base, parts)
		if !ok {
			return nil, false
		}
		a.Owners = []report.Ref{owner}
		trusted := !distrusted(backendPolicy(r, parts))
		if p == nil {
			if trusted {
				a.Endpoints = endpoints(t.parents(r, parts))
			}
			return a, true
		}
		if !last && p.ViaHops() {
			a.Endpoints = hopsOf(p)
			return a, true
		}
		members, _ := t.members.Get(r, p.Name)
		for _, m := range members.Members {
			if !m.Draining && trusted {
				a.Endpoints = append(a.Endpoints, model.Endpoint{Address: m.Address})
			}
		}
		if !last && p.PicksAgain() {
			a.Endpoints = append(a.Endpoints, model.Endpoint{Hop: p.OwnHop()})
		}
		if !last {
			for i, s := range p.Spill {
				a.Endpoints = append(a.Endpoints, model.Endpoint{Hop: s.Hop, Later: i > 0})
			}
		}
		return a, true
	case "service", "grpc", "tcp", "passthrough", "picker":
		svc, ok := store.Services.Get(r, parts[1]+"/"+parts[2])
		if !ok {
			return nil, false
		}
		a.Owners = []report.Ref{store.Services.Ref(svc)}
		if !distrusted(backendPolicy(r, parts)) {
			a.Endpoints = endpoints(serviceAddresses(r, svc, model.PortOf(parts), t.cfg.Slices))
		}
		return a, true
	case "import-picker":
		obj, c, ok := importedCluster(r, parts)
		if !ok || c.EndpointPicker == nil {
			return nil, false
		}
		a.Owners = []report.Ref{store.InferencePoolImports.Ref(obj)}
		a.Endpoints = endpoints(inference.Dialable(r, c.EndpointPicker.Service))
		return a, true
	}
	return nil, false
}

// hopsOf is the way of a pool that cannot share a cluster with hops: one to itself, then those to where it spills.
func hopsOf(p *model.Pool) []model.Endpoint {
	out := []model.Endpoint{{Hop: p.OwnHop()}}
	for i, s := range p.Spill {
		out = append(out, model.Endpoint{Hop: s.Hop, Priority: uint32(i + 1)})
	}
	return out
}

func endpoints(addrs []netip.AddrPort) []model.Endpoint {
	out := make([]model.Endpoint, len(addrs))
	for i, a := range addrs {
		out[i].Address = a
	}
	return out
}

// poolOrParents finds what a "pool/NS/NAME", "import/NS/NAME/CLUSTER" or "parent/NS/NAME/CLUSTER" is: a pool, or (nil) gateways of
// the owner.
func (t *tables) poolOrParents(r *graph.Reader, name string, parts []string) (*model.Pool, report.Ref, bool) {
	if parts[0] == "pool" {
		p, ok := t.pools.Get(r, parts[1]+"/"+parts[2])
		if !ok {
			return nil, report.Ref{}, false
		}
		return p, p.Ref, true
	}
	imp, ok := t.imports.Get(r, parts[1]+"/"+parts[2])
	if !ok {
		return nil, report.Ref{}, false
	}
	i := slices.IndexFunc(imp.Members, func(m model.ImportMember) bool { return m.Cluster == name })
	if i < 0 {
		return nil, report.Ref{}, false
	}
	return imp.Members[i].Pool, imp.Ref, true
}

func (t *tables) parents(r *graph.Reader, parts []string) []netip.AddrPort {
	imp, _ := t.imports.Get(r, parts[1]+"/"+parts[2])
	for _, m := range imp.Members {
		if m.Name == parts[3] {
			return m.Parents
		}
	}
	return nil
}

func importedCluster(r store.Reader, parts []string) (*inferenceapi.InferencePoolImport, *inferenceapi.ImportedCluster, bool) {
	obj, ok := store.InferencePoolImports.Get(r, parts[1]+"/"+parts[2])
	if !ok {
		return nil, nil, false
	}
	for i := range obj.Status.Clusters {
		if obj.Status.Clusters[i].Name == parts[3] {
			return obj, &obj.Status.Clusters[i], true
		}
	}
	return nil, nil, false
}

// serviceAddresses lists the endpoints of one port of a Service, sorted: ready ones, or those that are ending but still
// serve if no others are left (KEP-1669). Without any EndpointSlice, as in a folder of files, the Service's selector
// chooses pods and ModelServers itself, unless slicesOnly says that a cluster will make them.
func serviceAddresses(r store.Reader, svc *corev1.Service, port int32, slicesOnly bool) []netip.AddrPort {
	i := slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if i < 0 {
		return nil
	}
	sp := svc.Spec.Ports[i]
	var out []netip.AddrPort
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		for _, ip := range inference.Addresses(r, svc.Spec.ExternalName) {
			out = append(out, netip.AddrPortFrom(ip, uint16(port)))
		}
		return out
	}
	slicesOf := store.EndpointSlices.By(r, store.ByService, svc.Namespace+"/"+svc.Name)
	if len(slicesOf) == 0 && !slicesOnly {
		target := uint16(port)
		if n := sp.TargetPort.IntValue(); n > 0 {
			target = uint16(n)
		}
		selector := &model.Pool{Ref: store.Services.Ref(svc), Selector: svc.Spec.Selector, Ports: []uint16{target}}
		for _, m := range inference.Members(r, selector) {
			if !m.Draining && svc.Spec.Selector != nil {
				out = append(out, m.Address)
			}
		}
		return out
	}
	return sliceEndpoints(slicesOf, sp.Name)
}

// sliceEndpoints lists the endpoints of a Service's named port, sorted.
func sliceEndpoints(slicesOf []*discoveryv1.EndpointSlice, port string) (out []netip.AddrPort) {
	var ending []netip.AddrPort
	for _, slice := range slicesOf {
		ready, serving := sliceAddresses(slice, port)
		out, ending = append(out, ready...), append(ending, serving...)
	}
	if len(out) == 0 {
		out = ending
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

// sliceAddresses splits a slice's endpoints at the named port into ready ones and ones that are ending but still serve.
func sliceAddresses(slice *discoveryv1.EndpointSlice, port string) (ready, serving []netip.AddrPort) {
	var number uint16
	for _, p := range slice.Ports {
		if p.Port != nil && (p.Name == nil && port == "" || p.Name != nil && *p.Name == port) {
			number = uint16(*p.Port)
		}
	}
	if number == 0 {
		return nil, nil
	}
	for _, e := range slice.Endpoints {
		list := &ready
		if e.Conditions.Ready != nil && !*e.Conditions.Ready {
			if e.Conditions.Serving == nil || !*e.Conditions.Serving {
				continue
			}
			list = &serving
		}
		for _, a := range e.Addresses {
			if ip, err := netip.ParseAddr(a); err == nil {
				*list = append(*list, netip.AddrPortFrom(ip.Unmap(), number))
			}
		}
	}
	return ready, serving
}
