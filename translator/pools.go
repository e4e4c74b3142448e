package translator

import (
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

// PickerPool is a pool of Penstock's picker.
type PickerPool struct {
	Pool    *model.Pool
	Members []model.Member
	// External is the pool's external picker; nil for none. Penstock's picker relays all requests
	// to it (Pool.Relay), or only the requests whose bodies no picker receives.
	External *model.ExternalPicker
	// Gateways is set if another cluster has the pool behind gateways. Then Penstock's picker picks
	// no server for it.
	Gateways *model.ExternalPicker
	// Choice is set if the pool is an import, and the picker chooses an exporting cluster for each
	// request.
	Choice *Choice
	// Scorers are the external processes that score endpoints (Settings.Plugins.External), in
	// order. An unreachable process has no address.
	Scorers []model.ExternalPicker
	// Processor has no address if the service is unreachable; nil for none.
	Processor *model.ExternalPicker
	// Models is nil without InferenceModels, InferenceModelRewrites and InferenceObjectives.
	Models *model.Models
	// TLS is for connections to the pool's servers. CA has the certificates of TLS.Trust, in PEM;
	// while it is empty, no certificate is trusted.
	TLS *model.UpstreamTLS
	CA  []byte
}

// Choice configures how Penstock's picker chooses among an import's exporting clusters.
type Choice struct {
	Members []ChoiceMember // the members that take requests, sorted by name
	Further []model.HopID  // hops to the spill targets, in order
	Margin  time.Duration  // minimum advantage over the local cluster
	// These fields are as in model.Choice.
	Latency, Blind, Sessions, Responses bool
}

// ChoiceMember is an exporting cluster.
type ChoiceMember struct {
	Name    string
	Hop     model.HopID
	Local   bool // the member is this cluster
	Servers int  // declared by the cluster; 0 if unknown
	NoGRPC  bool // gRPC requests must not go to the member
}

type poolTables struct {
	pools   *graph.Table[string, *model.Pool]
	imports *graph.Table[string, *model.Import]
	members *graph.Table[objectid.Target, PickerPool]
	parents *graph.Table[string, []model.ParentGateway]
	// A row of selections waits until a pool's pods have been read, so that no route leads to the
	// pool before.
	selections *graph.Table[string, struct{}]

	poolsByID     *graph.Index[string, *model.Pool, objectid.Target]
	poolsByPicker *graph.Index[string, *model.Pool, model.ClusterID]
}

func (t *tables) declarePools() {
	t.selections = graph.Declare(t.engine, graph.Table[string, struct{}]{
		Name:    "selections",
		Order:   order,
		Sources: t.stored(store.InferencePools.Kind()),
		Compute: func(r *graph.Reader, key string) (struct{}, bool) {
			inference.Selection(r, key)
			return struct{}{}, true
		},
	})
	t.pools = graph.Declare(t.engine, graph.Table[string, *model.Pool]{
		Name:    "pools",
		Order:   order,
		Sources: t.stored(store.InferencePools.Kind()),
		Compute: func(r *graph.Reader, key string) (*model.Pool, bool) {
			t.selections.Get(r, key)
			if only := t.cfg.StandAlone; only != nil {
				return inference.StandAlonePool(r, key, only)
			}
			p, ok := inference.Pool(r, key)
			if ok {
				t.awaitSpill(r, p.Spill)
			}
			return p, ok
		},
	})
	t.poolsByID = graph.NewIndex(t.pools, "pool", func(_ string, p *model.Pool) []objectid.Target {
		return []objectid.Target{p.Name}
	})
	t.poolsByPicker = graph.NewIndex(t.pools, "picker", func(_ string, p *model.Pool) []model.ClusterID {
		if !p.Picker.Cluster.External() {
			return nil
		}
		return []model.ClusterID{p.Picker.Cluster.As(model.Plain)}
	})
	t.imports = graph.Declare(t.engine, graph.Table[string, *model.Import]{
		Name:  "imports",
		Order: order,
		Sources: append(t.stored(store.InferencePoolImports.Kind()),
			t.engine.Stored(store.Offers.Kind(), store.ByImport)),
		Compute: func(r *graph.Reader, key string) (*model.Import, bool) {
			imp, ok := inference.Import(r, key)
			if ok {
				t.awaitSpill(r, imp.Spill)
				for _, m := range imp.Members {
					if m.Pool != nil {
						t.awaitSpill(r, m.Pool.Spill)
					}
				}
			}
			return imp, ok
		},
	})
}

func poolAt(key string) objectid.Pool {
	p, _ := objectid.ParsePool(key)
	return p
}

func ordered(p objectid.Pool, imp *model.Import) OrderedImport {
	out := OrderedImport{Import: p}
	if imp == nil || !imp.Ordered {
		return out
	}
	out.Ready = make(map[string]bool, len(imp.Members))
	for i := range imp.Members {
		m := &imp.Members[i]
		// A cluster with weight 0 is drained on purpose, so it counts as ready.
		out.Ready[m.Name] = m.Problem == "" && m.NotReady == ""
	}
	return out
}

func unusable(imp *model.Import) (out map[string]UnusableCluster) {
	if imp == nil {
		return nil
	}
	for i := range imp.Members {
		if m := &imp.Members[i]; m.Problem != "" && m.Reason != "" {
			if out == nil {
				out = map[string]UnusableCluster{}
			}
			out[m.Name] = UnusableCluster{m.Reason, m.Problem}
		}
	}
	return out
}

func (t *tables) awaitSpill(r *graph.Reader, list []model.Spill) {
	for _, s := range list {
		for _, b := range s.Ends() {
			if b.Cluster.Kind == model.PoolKind {
				t.selections.Get(r, b.Cluster.Key())
			}
		}
	}
}

// The table members has all local pools, because other gateways and clusters may use any of them.
// It also has exporting clusters behind gateways, because Penstock's picker requests their models.
func (t *tables) declareMembers() {
	t.members = graph.Declare(t.engine, graph.Table[objectid.Target, PickerPool]{
		Name:    "members",
		Order:   objectid.Target.Compare,
		Sources: []graph.Source[objectid.Target]{t.poolsByID, t.attachmentsByImportedPool},
		Compute: func(r *graph.Reader, id objectid.Target) (PickerPool, bool) {
			if id.Import {
				return t.choicePool(r, id)
			}
			p, ok := t.pool(r, id)
			if !ok {
				return t.gatewayPool(r, id)
			}
			out := PickerPool{Pool: p, Members: inference.Members(r, p), Models: inference.Models(r, id)}
			out.TLS, out.CA = t.poolTLS(r, p)
			asked := p.Picker.Cluster
			if p.Relay != nil {
				asked = model.ImportPickerCluster(id.Namespace, id.Name, id.Member)
			}
			if asked.External() {
				if at, ok := t.externalPicker(r, asked, p.Cluster, p.Last); ok {
					out.External = &at
				}
			}
			if s := p.Settings.Processor; s != nil {
				at := inference.ProcessorHost(r, s)
				if s.Service != "" {
					at, _ = t.externalPicker(r, model.ServiceCluster(id.Namespace, s.Service, s.Port), p.Cluster,
						p.Last)
				}
				out.Processor = &at
			}
			if p.Settings.Plugins != nil {
				for _, s := range p.Settings.Plugins.External {
					at, _ := t.externalPicker(r, model.PickerCluster(id.Namespace, s.Service, s.Port), p.Cluster,
						p.Last)
					out.Scorers = append(out.Scorers, at)
				}
			}
			return out, true
		},
	})
}

func (t *tables) choicePool(r *graph.Reader, id objectid.Target) (PickerPool, bool) {
	imp, ok := t.imports.Get(r, id.Pool.String())
	if !ok || imp.Choice == nil {
		return PickerPool{}, false
	}
	pool := &model.Pool{Name: id, Ref: imp.Ref, Cluster: imp.Cluster, Last: imp.Cluster, Picker: imp.Choice.Picker,
		Owners:   []report.Ref{imp.Ref},
		Settings: model.PickerSettings{SessionTTL: imp.Choice.SessionTTL, SessionCookie: imp.Choice.SessionCookie}}
	choice := &Choice{
		Margin: imp.Choice.Margin, Latency: imp.Choice.Latency, Blind: imp.Choice.Blind,
		Sessions: imp.Choice.Sessions, Responses: imp.Choice.Picker.ResponseIDs,
	}
	without := inference.NoGRPC(r, imp)
	for i := range imp.Members {
		if m := &imp.Members[i]; m.Takes() {
			member := ChoiceMember{Name: m.Name, Hop: imp.Hop(m), Local: m.Local, NoGRPC: without(m.Name)}
			if m.Pool != nil {
				member.Servers = len(m.Pool.Remote)
			}
			choice.Members = append(choice.Members, member)
		}
	}
	for _, s := range imp.Spill {
		choice.Further = append(choice.Further, s.Hop)
	}
	return PickerPool{Pool: pool, Choice: choice}, true
}

func (t *tables) gatewayPool(r *graph.Reader, id objectid.Target) (PickerPool, bool) {
	cluster := model.ParentCluster(id.Namespace, id.Name, id.Member)
	imp, m, ok := t.importMember(r, cluster)
	if !ok {
		cluster = model.PeerCluster(id.Namespace, id.Name, id.Member)
		imp, m, ok = t.importMember(r, cluster)
	}
	if !ok || id.Member == "" {
		return PickerPool{}, false
	}
	at, ok := t.externalPicker(r, cluster, cluster)
	if !ok {
		return PickerPool{}, false
	}
	to := &model.Pool{Name: id, Ref: imp.Ref, Cluster: cluster, Last: cluster, Protocol: m.Protocol,
		Owners: []report.Ref{imp.Ref}}
	return PickerPool{Pool: to, Gateways: &at}, true
}

func (t *tables) poolTLS(r *graph.Reader, p *model.Pool) (*model.UpstreamTLS, []byte) {
	policy := gatewayapi.BackendPolicy(r, p.Last)
	switch {
	case policy == nil:
		return nil, nil
	case policy.TLS == nil:
		return &model.UpstreamTLS{}, []byte{}
	}
	return policy.TLS, t.bundle(r, policy.TLS)
}

func (t *tables) pool(r *graph.Reader, id objectid.Target) (*model.Pool, bool) {
	if id.Member == "" {
		return t.pools.Get(r, id.Pool.String())
	}
	imp, ok := t.imports.Get(r, id.Pool.String())
	if !ok {
		return nil, false
	}
	for _, m := range imp.Members {
		if m.Name == id.Member && m.Pool != nil {
			return m.Pool, true
		}
	}
	return nil, false
}

type lookup struct{ *tables }

func (l lookup) Pool(r store.Reader, key string) (*model.Pool, bool) {
	return l.pools.Get(r.(*graph.Reader), key)
}

func (l lookup) Import(r store.Reader, key string) (*model.Import, bool) {
	return l.imports.Get(r.(*graph.Reader), key)
}
