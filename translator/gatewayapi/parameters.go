package gatewayapi

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
)

type badParameters struct{ field, problem, fix string }

// parameters merges the EnvoyFleets of a Gateway and its class: the Gateway's fields take
// precedence (GEP-1867).
func parameters(r store.Reader, gw *gatewayv1.Gateway) (*v1alpha1.EnvoyFleetSpec, *badParameters) {
	own, base := &v1alpha1.EnvoyFleetSpec{}, &v1alpha1.EnvoyFleetSpec{}
	if class, ok := store.GatewayClasses.Get(r, string(gw.Spec.GatewayClassName)); ok {
		found, bad := classParameters(r, class)
		if bad != nil {
			bad.problem = fmt.Sprintf("GatewayClass %s %s: %s", class.Name, bad.field, bad.problem)
			bad.field = "spec.gatewayClassName"
			return nil, bad
		}
		if found != nil {
			base = found
		}
	}
	if i := gw.Spec.Infrastructure; i != nil && i.ParametersRef != nil {
		found, bad := envoyFleet(r, string(i.ParametersRef.Group), string(i.ParametersRef.Kind), gw.Namespace,
			i.ParametersRef.Name)
		if bad != nil {
			bad.field = "spec.infrastructure.parametersRef" + bad.field
			return nil, bad
		}
		own = found
	}
	return over(own, base), nil
}

func classParameters(r store.Reader, class *gatewayv1.GatewayClass) (*v1alpha1.EnvoyFleetSpec, *badParameters) {
	ref := class.Spec.ParametersRef
	if ref == nil {
		return nil, nil
	}
	found, bad := envoyFleet(r, string(ref.Group), string(ref.Kind), string(ptr.Deref(ref.Namespace, "")), ref.Name)
	if bad != nil {
		bad.field = "spec.parametersRef" + bad.field
	}
	return found, bad
}

func envoyFleet(r store.Reader, group, kind, namespace, name string) (*v1alpha1.EnvoyFleetSpec, *badParameters) {
	if group != v1alpha1.Group || kind != store.EnvoyFleets.Kind() {
		return nil,
			&badParameters{"",
				fmt.Sprintf("parameters of kind %s (%s) are not supported, only kind %s (%s)", kind,
					cmp.Or(group, "core"), store.EnvoyFleets.Kind(), v1alpha1.Group),
				fmt.Sprintf("name an EnvoyFleet (group %s), or remove it", v1alpha1.Group)}
	}
	if namespace == "" {
		return nil, &badParameters{".namespace", "is not given", "write the namespace of the EnvoyFleet"}
	}
	fleet, ok := store.EnvoyFleets.Get(r, objectid.Join(namespace, name))
	if !ok {
		ref := store.RefOf(store.EnvoyFleets, objectid.Join(namespace, name))
		return nil, &badParameters{".name", NotExist(r, ref, ref), fixMissing}
	}
	return &fleet.Spec, nil
}

func over(own, base *v1alpha1.EnvoyFleetSpec) *v1alpha1.EnvoyFleetSpec {
	out := &v1alpha1.EnvoyFleetSpec{
		Mode:         cmp.Or(own.Mode, base.Mode),
		Image:        cmp.Or(own.Image, base.Image),
		Replicas:     cmp.Or(own.Replicas, base.Replicas),
		Autoscaling:  cmp.Or(own.Autoscaling, base.Autoscaling),
		Resources:    cmp.Or(own.Resources, base.Resources),
		Concurrency:  cmp.Or(own.Concurrency, base.Concurrency),
		DrainSeconds: cmp.Or(own.DrainSeconds, base.DrainSeconds),
		Service:      cmp.Or(own.Service, base.Service),
		Pod:          cmp.Or(own.Pod, base.Pod),
		Bootstrap:    cmp.Or(own.Bootstrap, base.Bootstrap),
		Clients:      cmp.Or(own.Clients, base.Clients),
		External:     cmp.Or(own.External, base.External),
		Routes:       cmp.Or(own.Routes, base.Routes),

		NetworkPolicy: cmp.Or(own.NetworkPolicy, base.NetworkPolicy),
	}
	switch { // these fields are exclusive: the class's field is dropped
	case own.Replicas != nil:
		out.Autoscaling = nil
	case own.Autoscaling != nil:
		out.Replicas = nil
	}
	return out
}

func edge(fleet *v1alpha1.EnvoyFleetSpec) model.Edge {
	e := model.Edge{RequestTimeout: model.DefaultRequestTimeout, Uploads: model.UploadsOf(model.DefaultMemory)}
	if fleet != nil && fleet.Resources != nil {
		if limit, ok := fleet.Resources.Limits[corev1.ResourceMemory]; ok {
			e.Uploads = model.UploadsOf(limit.Value())
		}
	}
	if fleet == nil || fleet.Clients == nil {
		return e
	}
	c := fleet.Clients
	if c.RequestTimeoutSeconds != nil {
		e.RequestTimeout = time.Duration(*c.RequestTimeoutSeconds) * time.Second
	}
	if c.HTTP2Streams != nil {
		e.Streams = uint32(max(1, *c.HTTP2Streams))
	}
	if c.TrustedHops != nil {
		e.TrustedHops = uint32(max(0, *c.TrustedHops))
	}
	e.EscapedSlashes, e.Underscores, e.ProxyProtocol = c.EscapedSlashes, c.HeadersWithUnderscores, c.ProxyProtocol
	e.RequestIDs, e.HTTP10 = c.RequestIDs, c.HTTP10
	return e
}
