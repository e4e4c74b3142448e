package export

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/deepcopy"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// Reasons of a False condition Exported. The first one is defined upstream.
const (
	NotSupportedReason = "NotSupported"
	NoAddressReason    = "NoAddress"
)

// Pool has the facts about a pool that Decide needs and that are not in the store.
type Pool struct {
	// Endpoints are the pool's model servers that may take requests.
	Endpoints []netip.AddrPort
	// FailOpen means that requests go to any endpoint while Penstock's picker does not respond.
	FailOpen bool
	// Gateways route to the pool, for ParentMode.
	Gateways []Gateway
	// Before is Decision.Wish of the pool's previous Decision; nil: none.
	Before *Wish
	// Own is the entry that the exporting cluster's own Penstock published. Only a hub sets it
	// (Config.Hub). nil: none.
	Own *inferenceapi.ImportedCluster
}

// Gateway is a Gateway that routes to a pool.
type Gateway struct {
	Namespace, Name string
	Addresses       []string
	Ports           []inferenceapi.Port // importers use the first port
	// Peer is the pool's address at the Gateway's peer listener; nil: none.
	Peer *inferenceapi.ServiceImport
}

// Compare orders Gateways by namespace, then by name.
func (g Gateway) Compare(o Gateway) int {
	return cmp.Or(strings.Compare(g.Namespace, o.Namespace), strings.Compare(g.Name, o.Name))
}

const (
	maxEndpoints = 1024
	maxParents   = 16
	maxAddresses = 64
	maxPorts     = 16
	maxServices  = 16
)

// maxPickers bounds the picker addresses in a cluster's entry, because an import has one entry for
// each cluster.
const maxPickers = 256

type missing struct{ reason, message string }

func entry(
	r store.Reader, c Config, pool *inferencev1.InferencePool, w Wish, has Pool,
) (e inferenceapi.ImportedCluster, cut int, no *missing) {
	e = inferenceapi.ImportedCluster{Name: c.Cluster, Region: c.Region, Zone: c.Zone, RoutingMode: w.mode,
		Weight: w.weight}
	for _, p := range pool.Spec.TargetPorts {
		e.TargetPorts = append(e.TargetPorts, inferenceapi.Port{Number: int32(p.Number)})
	}
	if len(e.TargetPorts) > 0 {
		e.TargetPortNumber = e.TargetPorts[0].Number // the proposal's field for a single target port
	}
	e.AppProtocol = string(pool.Spec.AppProtocol)
	if w.mode == inferenceapi.ParentMode {
		_, offered := c.Offers[objectid.PoolOf(pool)]
		e.Parents, no = parents(c.PeerListener && !offered, has.Gateways)
		return e, 0, no
	}
	e.PodCIDRs = c.PodCIDRs
	e.FailureMode = string(inferencev1.EndpointPickerFailClose)
	if ref := pool.Spec.EndpointPickerRef; ref != nil {
		if ref.FailureMode != "" {
			e.FailureMode = string(ref.FailureMode)
		}
		e.EndpointPicker, no = externalPicker(r, c, pool, ref)
	} else if c.Hub {
		no = ofPenstock(&e, has.Own)
	} else {
		if has.FailOpen {
			e.FailureMode = string(inferencev1.EndpointPickerFailOpen)
		}
		e.EndpointPicker, cut, no = ownPicker(c, pool)
	}
	if no != nil {
		return e, 0, no
	}
	e.Endpoints = endpoints(has.Endpoints, e.TargetPorts)
	return e, cut, nil
}

// ownPicker returns the addresses of this cluster's Penstock picker. cut counts the addresses
// without room.
func ownPicker(
	c Config, pool *inferencev1.InferencePool,
) (out *inferenceapi.EndpointPickerImport, cut int, no *missing) {
	if len(c.Pickers) == 0 {
		return nil, 0,
			&missing{NotSupportedReason, "its picker is Penstock's own, which other clusters do not reach: " +
				"give the ClusterSet a peerListener, or start penstock with --picker-open, and with a reachable " +
				"--picker; or export the pool in ParentMode"}
	}
	out = &inferenceapi.EndpointPickerImport{Name: "penstock", Pool: objectid.PoolOf(pool).String(),
		Peer: c.MembersPick}
	protocol := ""
	if c.Cleartext {
		protocol = string(inferencev1.AppProtocolH2C)
	}
	pickers := distinctPickers(c.Pickers, uint16(c.Offers[objectid.PoolOf(pool)]))
	total, listed := len(pickers), 0
	for _, at := range pickers[:min(total, maxPickers)] {
		last := len(out.Service) - 1
		port := inferenceapi.Port{Number: int32(at.Port()), AppProtocol: protocol}
		if last < 0 || out.Service[last].Ports[0] != port || len(out.Service[last].Addresses) == maxAddresses {
			if last+1 == maxServices {
				return out, total - listed, nil
			}
			out.Service = append(out.Service, inferenceapi.ServiceImport{Ports: []inferenceapi.Port{port}})
			last++
		}
		out.Service[last].Addresses = append(out.Service[last].Addresses, at.Addr().String())
		listed++
	}
	return out, total - listed, nil
}

func distinctPickers(list []netip.AddrPort, port uint16) []netip.AddrPort {
	list = unmapped(list, port)
	slices.SortFunc(list, func(a, b netip.AddrPort) int {
		return cmp.Or(cmp.Compare(a.Port(), b.Port()), a.Addr().Compare(b.Addr()))
	})
	return slices.Compact(list)
}

// unmapped returns IPv4 addresses for IPv4-mapped ones, at a port; 0: each at its own port.
func unmapped(list []netip.AddrPort, port uint16) (out []netip.AddrPort) {
	for _, at := range list {
		out = append(out, netip.AddrPortFrom(at.Addr().Unmap(), cmp.Or(port, at.Port())))
	}
	return out
}

func noAddress(format string, args ...any) *missing {
	return &missing{NoAddressReason, fmt.Sprintf(format, args...)}
}

// ofPenstock copies the picker of an entry that a hub builds from own, a PoolExport of the
// exporting Penstock.
func ofPenstock(e, own *inferenceapi.ImportedCluster) *missing {
	if own == nil || own.EndpointPicker == nil || own.EndpointPicker.Peer {
		return &missing{NotSupportedReason,
			"it has no endpointPickerRef, and no PoolExport of its cluster's own Penstock that has the address of " +
				"its picker: give Penstock there a ClusterSet and --picker-open, or export the pool in ParentMode"}
	}
	e.EndpointPicker, e.FailureMode = deepcopy.Of(own.EndpointPicker), own.FailureMode
	if len(e.PodCIDRs) == 0 {
		e.PodCIDRs = slices.Clone(own.PodCIDRs)
	}
	return nil
}

func externalPicker(r store.Reader, c Config, pool *inferencev1.InferencePool,
	ref *inferencev1.EndpointPickerRef) (*inferenceapi.EndpointPickerImport, *missing) {
	key := objectid.Join(pool.Namespace, string(ref.Name))
	svc, ok := store.Services.Get(r, key)
	if !ok {
		return nil, noAddress("Service %s, its picker, does not exist", key)
	}
	var port *corev1.ServicePort
	for i := range svc.Spec.Ports {
		if ref.Port == nil || svc.Spec.Ports[i].Port == int32(ref.Port.Number) {
			port = &svc.Spec.Ports[i]
			break
		}
	}
	if port == nil {
		return nil, noAddress("Service %s, its picker, has no port %d", key, ref.Port.Number)
	}
	at, number := reached(r, c, svc, port)
	if len(at.Addresses) == 0 {
		return nil, noAddress("Service %s, its picker, is of type %s and has no address yet", key, at.Type)
	}
	out := &inferenceapi.EndpointPickerImport{Name: svc.Name, Service: inferenceapi.ServiceImports{at}}
	for i := range svc.Spec.Ports {
		p := &svc.Spec.Ports[i]
		if number(p) == 0 {
			continue
		}
		switch p.Name {
		case "health":
			out.Health = &inferenceapi.EndpointImport{Port: number(p)}
		case "metrics":
			out.Metrics = &inferenceapi.EndpointImport{Port: number(p)}
		}
	}
	return out, nil
}

func addresses(svc *corev1.Service) (out []string) {
	switch svc.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return []string{svc.Spec.ExternalName}
	case corev1.ServiceTypeLoadBalancer:
		for _, in := range svc.Status.LoadBalancer.Ingress {
			if at := cmp.Or(in.IP, in.Hostname); at != "" {
				out = append(out, at)
			}
		}
	default:
		for _, ip := range svc.Spec.ClusterIPs {
			if ip != corev1.ClusterIPNone {
				out = append(out, ip)
			}
		}
		if ip := svc.Spec.ClusterIP; len(out) == 0 && ip != "" && ip != corev1.ClusterIPNone {
			out = append(out, ip)
		}
	}
	if len(out) == 0 {
		out = slices.Clone(svc.Spec.ExternalIPs)
	}
	return out[:min(len(out), maxAddresses)]
}

func endpoints(list []netip.AddrPort, target []inferenceapi.Port) (out []inferenceapi.ImportedEndpoint) {
	usual := make([]int32, 0, len(target))
	for _, p := range target {
		usual = append(usual, p.Number)
	}
	slices.Sort(usual)
	list = unmapped(list, 0)
	slices.SortFunc(list, netip.AddrPort.Compare)
	for _, at := range slices.Compact(list) {
		address := at.Addr().String()
		if n := len(out); n == 0 || out[n-1].Address != address {
			if n == maxEndpoints {
				break
			}
			out = append(out, inferenceapi.ImportedEndpoint{Address: address})
		}
		last := &out[len(out)-1]
		last.Ports = append(last.Ports, int32(at.Port()))
	}
	for i := range out {
		if slices.Equal(out[i].Ports, usual) {
			out[i].Ports = nil
		}
	}
	return out
}

func parents(atPeers bool, gateways []Gateway) (out []inferenceapi.ParentImport, no *missing) {
	for _, g := range gateways {
		at := inferenceapi.ServiceImport{Addresses: g.Addresses, Ports: g.Ports[:min(len(g.Ports), maxPorts)]}
		if atPeers {
			at = inferenceapi.ServiceImport{}
			if g.Peer != nil {
				at = *g.Peer
			}
		}
		if len(at.Addresses) == 0 || len(at.Ports) == 0 || len(out) == maxParents {
			continue
		}
		at.Addresses = at.Addresses[:min(len(at.Addresses), maxAddresses)]
		out = append(out, inferenceapi.ParentImport{Name: g.Name, Namespace: g.Namespace, Peer: atPeers,
			Service: inferenceapi.ServiceImports{at}})
	}
	switch {
	case len(out) > 0:
		return out, nil
	case len(gateways) == 0:
		listener := " with an HTTP or HTTPS listener"
		if atPeers {
			listener = ""
		}
		return nil, noAddress("no Gateway routes to it, and ParentMode needs one: name the pool in an HTTPRoute of a "+
			"Gateway%s, or set %s: EndpointMode", listener, ModeAnnotation)
	case !atPeers:
		return nil, noAddress("Gateway %s/%s, which routes to it, has no address that other clusters reach: give it "+
			"one in spec.addresses, or start penstock with --members-address", gateways[0].Namespace, gateways[0].Name)
	case !slices.ContainsFunc(gateways, func(g Gateway) bool { return g.Peer != nil }):
		return nil, noAddress(noPeer)
	}
	return nil, noAddress("Gateway %s/%s, which routes to it, has no address that members reach: set "+
		"spec.peerListener.address of the ClusterSet", gateways[0].Namespace, gateways[0].Name)
}

const noPeer = "no Gateway that routes to it has the peer listener of the ClusterSet: it needs members, and a port " +
	"that no listener of the Gateway has and that its Service on Kubernetes has"

const noMember = "its Gateways have the peer listener of the ClusterSet once that has a member: see penstock " +
	"clusters join"
