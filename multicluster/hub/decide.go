package hub

import (
	"cmp"
	"context"
	"slices"
	"strings"

	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/export"
)

func (c *cluster) decide(ctx context.Context, view *store.View, source *kube.Source,
	before *[]kube.Demand) (changed int, err error) {
	c.mu.Lock()
	beside, uid := c.beside, c.uid
	cfg := export.Config{Cluster: c.name, Members: c.others, PodCIDRs: c.config.Allow.PodCIDRs, Hub: true,
		NodeAddress: beside.nodeAddress}
	c.mu.Unlock()
	cfg.Region, cfg.Zone = beside.topology()
	if now := demands(view); !slices.Equal(now, *before) {
		*before = now
		for _, read := range source.Keep(now) {
			select {
			case <-read:
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		if err := source.Flush(); err != nil {
			return 0, err
		}
		view = c.store.View()
	}
	own := beside.exports()
	var list []export.Decision
	for _, pool := range store.InferencePools.All(view) {
		id := objectid.PoolOf(pool)
		d, ok := export.Decide(view, cfg, id, export.Pool{Gateways: c.gateways(view, source, pool), Own: own[id]})
		if ok && (d.Asked || len(d.Findings) > 0) {
			list = append(list, d)
		}
	}
	return c.hub.out.Exports(c.name, uid, list), nil
}

func demands(view *store.View) (out []kube.Demand) {
	for _, pool := range store.InferencePools.All(view) {
		if _, ok := pool.Annotations[export.Annotation]; ok && pool.Spec.EndpointPickerRef != nil {
			out = append(out, kube.Demand{Table: store.EndpointSlices.Kind(), Index: store.ByService,
				Key: objectid.Join(pool.Namespace, string(pool.Spec.EndpointPickerRef.Name))})
		}
	}
	slices.SortFunc(out, func(a, b kube.Demand) int { return strings.Compare(a.Key, b.Key) })
	return slices.Compact(out)
}

func (c *cluster) gateways(view store.Reader, source *kube.Source,
	pool *inferencev1.InferencePool) (out []export.Gateway) {
	if pool.Annotations[export.ModeAnnotation] != string(inferenceapi.ParentMode) {
		return nil
	}
	live, ok := source.Live(store.InferencePools.Ref(pool))
	if !ok {
		return nil
	}
	for _, p := range live.Status.(*inferencev1.InferencePoolStatus).Parents {
		ref := p.ParentRef
		if ref.Kind != inferencev1.Kind(store.Gateways.Kind()) && ref.Kind != "" {
			continue
		}
		gw, ok := store.Gateways.Get(view,
			objectid.Join(cmp.Or(string(ref.Namespace), pool.Namespace), string(ref.Name)))
		if !ok {
			continue
		}
		one := export.Gateway{Namespace: gw.Namespace, Name: gw.Name}
		if status, ok := source.Live(store.Gateways.Ref(gw)); ok {
			for _, a := range status.Status.(*gatewayv1.GatewayStatus).Addresses {
				one.Addresses = append(one.Addresses, a.Value)
			}
		}
		for _, l := range gw.Spec.Listeners {
			port := inferenceapi.Port{Number: int32(l.Port)}
			switch {
			case l.Protocol == gatewayv1.HTTPSProtocolType:
				port.AppProtocol = "https"
			case l.Protocol != gatewayv1.HTTPProtocolType:
				continue
			}
			if !slices.Contains(one.Ports, port) {
				one.Ports = append(one.Ports, port)
			}
		}
		slices.SortStableFunc(one.Ports, func(a, b inferenceapi.Port) int {
			return strings.Compare(b.AppProtocol, a.AppProtocol)
		})
		out = append(out, one)
	}
	slices.SortFunc(out, export.Gateway.Compare)
	return out
}
