package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/translator/services"
)

func (b *ruleBuilder) shares(specs []gatewayv1.HTTPBackendRef, matches []model.Match, field string) []share {
	var out []share
	for i := range specs {
		spec := &specs[i]
		at := fmt.Sprintf("%s.backendRefs[%d]", field, i)
		s := share{weight: uint32(max(0, ptr.Deref(spec.Weight, 1)))}
		f := b.filters(spec.Filters, matches, at+".filters", true)
		s.request, s.response, s.rewriteHost, s.own = f.request, f.response, f.rewriteHost, f.own()

		ref := backendRef(b.out.Route.Namespace, &spec.BackendObjectReference)
		res := b.resolve(ref, spec.Port)
		b.restrict(&res, ref, &f, at+".filters")
		s.backend = store.TargetOf(ref)
		if res.Ref != "" {
			s.backend = res.Ref
		}
		if res.Reason != string(gatewayv1.RouteReasonRefNotPermitted) {
			b.out.Backends = append(b.out.Backends, s.backend)
			b.ambiguous(ref, at)
		}
		if res.Reason != "" {
			b.fail(res, at)
		} else {
			b.outside(res, at)
			b.withoutGRPC(res, ref, at)
			s.targets, s.clusters, s.hops, s.members = res.Targets, res.Clusters, res.Hops, res.Members
		}
		if f.fails {
			s.targets = nil
		}
		s.clusters = slices.Concat(s.clusters, f.clusters)
		out = append(out, s)
	}
	b.drained(specs, out, field)
	return out
}

func (b *ruleBuilder) fail(res Resolution, field string) {
	b.unresolved = append(b.unresolved, falseCondition(gatewayv1.RouteConditionResolvedRefs,
		gatewayv1.RouteConditionReason(res.Reason), res.Message))
	b.out.Findings = append(b.out.Findings, finding(b.out.Route, field, res.Message, ""))
}

const speakHTTP2 = "set appProtocol: kubernetes.io/h2c on it if its servers speak that"

func takesGRPC(t Target) bool { return t.Protocol == model.H2C }

func (b *ruleBuilder) withoutGRPC(res Resolution, ref report.Ref, field string) {
	if !b.grpc() || res.Members == nil {
		return
	}
	for _, t := range res.Targets {
		if !takesGRPC(t) {
			why := "cluster %s of %s speaks HTTP/1.1, and takes no gRPC: its other clusters get the requests"
			b.warn(field, fmt.Sprintf(why, t.Hop.Member, ref), speakHTTP2)
		}
	}
}

func (b *ruleBuilder) ambiguous(ref report.Ref, field string) {
	if !isPool(ref) || ref.Kind != store.InferencePoolImports.Kind() {
		return
	}
	if f, several := Ambiguous(b.r, b.out.Route, field+".name", ref.Namespace, ref.Name); several {
		b.out.Findings = append(b.out.Findings, f)
	}
}

func (b *ruleBuilder) drained(specs []gatewayv1.HTTPBackendRef, shares []share, field string) {
	takes := func(s share) bool {
		return s.weight > 0 &&
			(len(s.targets) == 0 || slices.ContainsFunc(s.targets, func(t Target) bool { return t.Share > 0 }))
	}
	become := b.answered()
	fix := "end its drain, or add a backend that takes requests"
	if slices.ContainsFunc(shares, takes) {
		become, fix = "the other backends take its share", "set its weight to 0"
	}
	for i, s := range shares {
		if s.weight > 0 && !takes(s) {
			ref := backendRef(b.out.Route.Namespace, &specs[i].BackendObjectReference)
			b.warn(fmt.Sprintf("%s.backendRefs[%d]", field, i),
				fmt.Sprintf("%s takes no new requests: %s", ref, become), fix)
		}
	}
}

func (b *ruleBuilder) onlyService(spec *gatewayv1.BackendObjectReference, why, field string) (cluster model.ClusterID,
	ref report.Ref) {
	ref = backendRef(b.out.Route.Namespace, spec)
	res := unresolved(gatewayv1.RouteReasonInvalidKind, "%s %s (%q): use a Service", why, ref, ref.Group)
	if ref.Group == "" && ref.Kind == "Service" {
		res = b.resolve(ref, spec.Port)
	}
	if res.Reason != "" {
		b.fail(res, field)
		return model.ClusterID{}, ref
	}
	b.outside(res, field)
	b.out.Backends = append(b.out.Backends, store.TargetOf(ref))
	return res.Targets[0].Cluster, ref
}

const addressNotAllowed gatewayv1.RouteConditionReason = "AddressNotAllowed"

func (b *ruleBuilder) outside(res Resolution, field string) {
	if res.Outside != "" {
		b.fail(Resolution{Reason: string(addressNotAllowed), Message: res.Outside}, field)
	}
}

func backendRef(namespace string, spec *gatewayv1.BackendObjectReference) report.Ref {
	return report.Ref{
		Group: string(ptr.Deref(spec.Group, "")), Kind: cmp.Or(string(ptr.Deref(spec.Kind, "")), "Service"),
		Namespace: cmp.Or(string(ptr.Deref(spec.Namespace, "")), namespace), Name: string(spec.Name),
	}
}

// isPool accepts the imports' API group for pools, too, because older routes use it.
func isPool(ref report.Ref) bool {
	pools, imports := store.InferencePools, store.InferencePoolImports
	return (ref.Group == pools.Group() || ref.Group == imports.Group()) &&
		(ref.Kind == pools.Kind() || ref.Kind == imports.Kind())
}

// resolve checks the ReferenceGrant before the object, so that an error without a grant discloses
// nothing about the object.
func (b *ruleBuilder) resolve(ref report.Ref, port *gatewayv1.PortNumber) Resolution {
	pool := isPool(ref)
	switch {
	case pool && b.streams():
		return unresolved(gatewayv1.RouteReasonInvalidKind,
			"%s picks endpoints for requests, and a %s has %s only: use a Service", ref, b.out.Route.Kind, b.carried())
	case !pool && b.streams() && !isService(ref):
		return unresolved(gatewayv1.RouteReasonInvalidKind,
			"backends of kind %s (%q) are not supported: use a Service or a ServiceImport (%s)", ref.Kind, ref.Group,
			store.ServiceImports.Group())
	case !pool && !isService(ref):
		if group := groupOf(ref.Kind); group != "" {
			return unresolved(gatewayv1.RouteReasonInvalidKind,
				"backends of kind %s in group %q are not supported: did you mean group: %s?",
				ref.Kind, ref.Group, group)
		}
		return unresolved(gatewayv1.RouteReasonInvalidKind,
			"backends of kind %s (%q) are not supported: use a Service, an InferencePool (%s), an "+
				"InferencePoolImport (%s) or a ServiceImport (%s)",
			ref.Kind, ref.Group, store.InferencePools.Group(), store.InferencePoolImports.Group(),
			store.ServiceImports.Group())
	case !Granted(b.r, b.out.Route, ref):
		return unresolved(gatewayv1.RouteReasonRefNotPermitted, "%s", noGrant(b.out.Route, ref))
	case pool:
		res := b.backends.Resolve(b.r, ref, ptr.Deref(port, 0))
		if res.Reason == string(gatewayv1.RouteReasonBackendNotFound) {
			res.Message += Elsewhere(b.r, b.out.Route, ref)
		}
		if b.grpc() && len(res.Targets) > 0 && !slices.ContainsFunc(res.Targets, takesGRPC) {
			return unresolved(gatewayv1.RouteReasonUnsupportedProtocol,
				"%s speaks HTTP/1.1, and gRPC needs HTTP/2: %s", ref, speakHTTP2)
		}
		return res
	case port == nil:
		return unresolved(gatewayv1.RouteReasonUnsupportedValue,
			"a backendRef to a Service or ServiceImport needs a port: %s%s",
			ref, b.poolMeant(ref))
	}
	res := service(b.r, b.out.Route, ref, *port)
	if res.Reason == string(gatewayv1.RouteReasonBackendNotFound) {
		res.Message += b.poolMeant(ref)
	}
	return res
}

func groupOf(kind string) string {
	for _, k := range []store.Kind{store.InferencePools, store.InferencePoolImports, store.ServiceImports} {
		if k.Kind() == kind {
			return k.Group()
		}
	}
	return ""
}

// poolMeant suggests the InferencePool with the name of a missing Service, because a backendRef
// without group and kind means a Service. It returns "" without a ReferenceGrant.
func (b *ruleBuilder) poolMeant(ref report.Ref) string {
	kind := store.InferencePools
	pool := report.Ref{Group: kind.Group(), Kind: kind.Kind(), Namespace: ref.Namespace, Name: ref.Name}
	if _, ok := store.InferencePools.Get(b.r, pool.Key()); !ok || b.streams() || !Granted(b.r, b.out.Route, pool) {
		return ""
	}
	return fmt.Sprintf("; did you mean the InferencePool %s? Then write group: %s and kind: %s", ref.Name, pool.Group,
		pool.Kind)
}

func portCluster(ref report.Ref, kind model.ClusterKind, port int32) model.ClusterID {
	id := model.ServiceCluster(ref.Namespace, ref.Name, port).WithKind(kind)
	if services.IsServiceImport(ref) {
		id = id.As(model.ImportedVariant)
	}
	return id
}

func service(r store.Reader, from, ref report.Ref, port int32) Resolution {
	kind := from.Kind
	svc, ok := services.Find(r, ref)
	if !ok {
		return unresolved(gatewayv1.RouteReasonBackendNotFound, "%s; create or correct it, or name one that exists",
			Missing(r, from, ref, ref.String()+" does not exist, or is invalid"))
	}
	p := services.Port(svc.Service, port, services.TransportOf(kind))
	if p == nil {
		return unresolved(gatewayv1.RouteReasonBackendNotFound, "%s has no port %d", ref, port)
	}
	protocol, ok := services.Protocol(p, kind, PolicyFor(r, ref, p.Name) != nil)
	if !ok {
		why := fmt.Sprintf("which %ss do not support", kind)
		if _, secured := services.Protocol(p, kind, true); secured {
			why = "and no BackendTLSPolicy names the CA certificates to trust"
		}
		return unresolved(gatewayv1.RouteReasonUnsupportedProtocol, "port %d of %s speaks %s, %s", port, ref,
			services.ProtocolText(p), why)
	}
	if policy := PolicyFor(r, ref, p.Name); protocol == model.UDP && policy != nil {
		return unresolved(gatewayv1.RouteReasonUnsupportedProtocol,
			"port %d of %s speaks UDP, and %s asks for TLS: name the ports that have it in its sectionName", port, ref,
			policy.Policy)
	}
	outside, off := svc.Outside(r), false
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		host, allowed := services.External(r, svc.Service, services.Lookup)
		outside, off = host.Outside, !allowed
	}
	if off {
		return unresolved(gatewayv1.RouteReasonUnsupportedValue,
			"%s is of type ExternalName, which is not allowed here: %s", ref, ExternalNameFix)
	}
	cluster := portCluster(ref, model.ServiceKind, port)
	switch {
	case protocol == model.TCP:
		cluster = cluster.WithKind(model.TCPKind)
	case protocol == model.UDP:
		cluster = cluster.WithKind(model.UDPKind)
	case kind == "GRPCRoute":
		cluster = cluster.WithKind(model.GRPCKind)
	}
	res := Resolution{Targets: []Target{{Cluster: cluster, Share: 1, Protocol: protocol}},
		Clusters: []model.ClusterID{cluster}}
	if outside != "" {
		res.Outside = fmt.Sprintf("%s: %s; %s", ref, outside, addresses.Fix(outside))
	}
	return res
}

// ExternalNameFix is the fix for a Service of type ExternalName without endpoints.
const ExternalNameFix = "use a Service with endpoints, or ask the operator of Penstock for --allow-external-name"

func unresolved(reason gatewayv1.RouteConditionReason, format string, args ...any) Resolution {
	return Resolution{Reason: string(reason), Message: fmt.Sprintf(format, args...)}
}
