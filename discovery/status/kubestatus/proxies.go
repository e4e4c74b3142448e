package kubestatus

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/status/shape"
	"github.com/penstock-project/penstock/discovery/store"
)

func (w *Writer) gateway(in *shape.Input, view *store.View, gw *gatewayv1.Gateway) {
	old := in.Old.(*gatewayv1.GatewayStatus)
	services := store.Services.By(view, store.ByGateway, store.ID(gw))
	in.Addresses = gatewayAddresses(gw, in.Report, services, old.Addresses)
	w.delivery(in, store.ID(gw), in.Generation, old.Conditions)
	if len(services) > 0 && len(in.Addresses) == 0 {
		in.Proxies.Addressless = store.ID(services[0])
	}
}

func (w *Writer) listenerSet(in *shape.Input, set *gatewayv1.ListenerSet) {
	for _, k := range store.ListenerSets.Keys(set) {
		if k.Index == store.ByParent {
			w.mu.Lock()
			generation := w.observed[store.RefOf(store.Gateways, k.Key)]
			w.mu.Unlock()
			w.delivery(in, k.Key, generation, in.Old.(*gatewayv1.ListenerSetStatus).Conditions)
		}
	}
}

// accessPolicy sets in.AncestorProxies to a function. For a Gateway of the policy, that function
// returns whether the Gateway's proxies have acknowledged the policy's routes.
func (w *Writer) accessPolicy(in *shape.Input) {
	at, fewest := map[report.ParentRef]shape.Proxies{}, 0
	for i, p := range in.Report.Parents {
		gateway := report.Ref{Group: p.Ref.Group, Kind: p.Ref.Kind, Namespace: p.Ref.Namespace, Name: p.Ref.Name}
		w.mu.Lock()
		generation := w.observed[gateway]
		w.mu.Unlock()
		connected, acked := w.cfg.Delivery.Delivered(gateway.Key(), generation)
		at[p.Ref] = shape.Proxies{Connected: connected, Acked: acked}
		if fewest = min(fewest, connected); i == 0 {
			fewest = connected
		}
	}
	if len(at) == 0 {
		return
	}
	absent := w.absence(in.Report.Owner, fewest)
	in.AncestorProxies = func(gateway report.ParentRef, before []metav1.Condition) *shape.Proxies {
		p := at[gateway]
		p.Absent, p.Before = absent, programmedGeneration(before)
		return &p
	}
}

// delivery sets in.Proxies to the state of the gateway's proxies for a generation. old has the
// conditions in the object's current status.
func (w *Writer) delivery(in *shape.Input, gateway string, generation int64, old []metav1.Condition) {
	connected, acked := w.cfg.Delivery.Delivered(gateway, generation)
	in.Proxies = &shape.Proxies{Connected: connected, Acked: acked, Absent: w.absence(in.Report.Owner, connected),
		Before: programmedGeneration(old)}
}

// absence returns how long an object has had no connected proxy. After the last proxy disconnects,
// it schedules a write of the object for the end of shape.ReconnectGrace.
func (w *Writer) absence(ref report.Ref, connected int) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if connected > 0 {
		delete(w.proxyless, ref)
		return 0
	}
	since, ok := w.proxyless[ref]
	if !ok {
		since = w.cfg.Now()
		w.proxyless[ref] = since
		if w.queues != nil {
			w.queues.forKind(ref.Kind).AddAfter(ref, shape.ReconnectGrace+time.Second)
		}
	}
	return w.cfg.Now().Sub(since)
}

func programmedGeneration(conditions []metav1.Condition) int64 {
	for _, c := range conditions {
		if c.Type == report.Programmed && c.Status == metav1.ConditionTrue {
			return c.ObservedGeneration
		}
	}
	return 0
}
