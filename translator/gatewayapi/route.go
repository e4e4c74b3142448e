package gatewayapi

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

type route struct {
	ref       report.Ref
	created   metav1.Time
	common    *gatewayv1.CommonRouteSpec
	hostnames []gatewayv1.Hostname
}

func findRoute(r store.Reader, key string) (route, bool) {
	kind, id := store.ParseTargetKey(key)
	switch kind {
	case "HTTPRoute":
		if o, ok := store.HTTPRoutes.Get(r, id); ok {
			return route{store.HTTPRoutes.Ref(o), o.CreationTimestamp, &o.Spec.CommonRouteSpec, o.Spec.Hostnames}, true
		}
	case "GRPCRoute":
		if o, ok := store.GRPCRoutes.Get(r, id); ok {
			return route{store.GRPCRoutes.Ref(o), o.CreationTimestamp, &o.Spec.CommonRouteSpec, o.Spec.Hostnames}, true
		}
	case "TLSRoute":
		if o, ok := store.TLSRoutes.Get(r, id); ok {
			return route{store.TLSRoutes.Ref(o), o.CreationTimestamp, &o.Spec.CommonRouteSpec, o.Spec.Hostnames}, true
		}
	case "TCPRoute":
		if o, ok := store.TCPRoutes.Get(r, id); ok {
			return route{store.TCPRoutes.Ref(o), o.CreationTimestamp, &o.Spec.CommonRouteSpec, nil}, true
		}
	case "UDPRoute":
		if o, ok := store.UDPRoutes.Get(r, id); ok {
			return route{store.UDPRoutes.Ref(o), o.CreationTimestamp, &o.Spec.CommonRouteSpec, nil}, true
		}
	}
	return route{}, false
}

func (rt route) hosts() []string {
	if len(rt.hostnames) == 0 {
		return []string{"*"}
	}
	out := make([]string, 0, len(rt.hostnames))
	for _, h := range rt.hostnames {
		out = append(out, strings.ToLower(string(h)))
	}
	return sorted(out, strings.Compare)
}
