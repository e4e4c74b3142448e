package translator

import (
	"cmp"
	"slices"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/model"
)

func (t *tables) declareParents() {
	t.parents = graph.Declare(t.engine, graph.Table[string, []model.ParentGateway]{
		Name:    "parents",
		Order:   order,
		Sources: t.stored(store.InferencePools.Kind()),
		Equal: func(a, b []model.ParentGateway) bool {
			return slices.EqualFunc(a, b, func(a, b model.ParentGateway) bool {
				return a.Ref == b.Ref && slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Ports, b.Ports) &&
					a.PeerPort == b.PeerPort
			})
		},
		Compute: func(r *graph.Reader, key string) ([]model.ParentGateway, bool) {
			pool, ok := store.InferencePools.Get(r, key)
			if !ok || pool.Annotations[inferenceapi.ExportModeAnnotation] != string(inferenceapi.ParentMode) {
				return nil, false
			}
			return t.withPeers(r, key,
				t.parentsOf(r, store.TargetKey(store.InferencePools.Kind(), pool.Namespace, pool.Name))), true
		},
	})
}

func (t *tables) parentsOf(r *graph.Reader, backend string) (out []model.ParentGateway) {
	at := map[string]int{}
	for _, row := range t.attachmentsByBackend.By(r, backend) {
		for _, p := range row.Value.Places {
			g, ok := t.gateways.Get(r, p.Gateway)
			if !ok || p.Stream || p.Chain == "" {
				continue
			}
			i := slices.IndexFunc(g.Listeners, func(l *model.Listener) bool { return l.Key == p.Listener })
			if i < 0 || g.Listeners[i].Clients != nil && !g.Listeners[i].Clients.Optional {
				continue // other clusters have no client certificate for the listener
			}
			if _, ok := at[p.Gateway]; !ok {
				at[p.Gateway] = len(out)
				out = append(out, model.ParentGateway{Ref: g.Ref, Addresses: g.Addresses})
			}
			one := &out[at[p.Gateway]]
			if port := (model.ParentPort{Number: g.Listeners[i].Port,
				HTTPS: g.Listeners[i].Protocol == "HTTPS"}); !slices.Contains(one.Ports, port) {
				one.Ports = append(one.Ports, port)
			}
		}
	}
	for i := range out {
		slices.SortFunc(out[i].Ports, func(a, b model.ParentPort) int {
			if a.HTTPS != b.HTTPS {
				if a.HTTPS {
					return -1
				}
				return 1
			}
			return cmp.Compare(a.Number, b.Number)
		})
	}
	slices.SortFunc(out, func(a, b model.ParentGateway) int { return a.Ref.Compare(b.Ref) })
	return out
}
