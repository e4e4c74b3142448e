package translator

import (
	"fmt"
	"maps"
	"slices"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/translator/services"
)

// Panic is a row whose computation panicked because of a bug. The row keeps its last value.
type Panic struct {
	Row   string // table and key
	Value string
	Stack []byte
}

const reasonInternalError = "InternalError"

// maxPanicValue limits a panic's text in reports, in bytes.
const maxPanicValue = 256

type panicked struct {
	owners []report.Ref
	text   string
}

func (t *Translator) panics(d *graph.Diff, out *Output) {
	if len(d.Panics)+len(d.Recovered) == 0 {
		return
	}
	for _, r := range d.Recovered {
		delete(t.panicked, rowID{r.Table, r.Key})
	}
	for _, p := range d.Panics {
		value := fmt.Sprint(p.Value)
		out.Panics = append(out.Panics, Panic{Row: fmt.Sprint(p.Table, " ", p.Key), Value: value, Stack: p.Stack})
		t.panicked[rowID{p.Table, p.Key}] = panicked{
			owners: t.tables.owners(t.engine.Reader(), p.Table, p.Key),
			text:   fmt.Sprintf("%s %s: %s", p.Table, p.Key, value[:min(len(value), maxPanicValue)]),
		}
	}
	out.Failing, out.FailingChanged = t.failing(), true
}

func (t *Translator) failing() []report.Report {
	byOwner := map[report.Ref][]string{}
	for _, p := range t.panicked {
		for _, o := range p.owners {
			byOwner[o] = append(byOwner[o], p.text)
		}
	}
	out := make([]report.Report, 0, len(byOwner))
	for _, o := range slices.SortedFunc(maps.Keys(byOwner), report.Ref.Compare) {
		texts := byOwner[o]
		slices.Sort(texts)
		problem := "its translation panics, which is a bug of Penstock (" + texts[0] +
			"); what proxies had of it stays, and what they never had answers 500"
		out = append(out, report.Report{
			Owner:      o,
			Conditions: []report.Condition{report.NotProgrammed(reasonInternalError, problem)},
			Findings: []report.Finding{
				{Severity: report.Error, Owner: o, Problem: problem,
					Fix: "undo the object's last change, and report the stack that is in Penstock's log"},
			},
		})
	}
	return out
}

var objects = map[string]store.Kind{
	"gatewayClassReports": store.GatewayClasses, "gateways": store.Gateways, "gatewayReports": store.Gateways,
	"gatewayCertificates": store.Gateways,
	"listenerSetReports":  store.ListenerSets, "pools": store.InferencePools, "poolReports": store.InferencePools,
	"imports": store.InferencePoolImports, "importReports": store.InferencePoolImports,
	"poolPolicyReports":       store.PoolPolicies,
	"accessPolicyReports":     store.AccessPolicies,
	"backendTLSPolicyReports": store.BackendTLSPolicies, "inferenceModelReports": store.InferenceModels,
	"inferenceModelRewriteReports": store.InferenceModelRewrites,
	"inferenceObjectiveReports":    store.InferenceObjectives, "modelServersReports": store.ModelServers,
}

func (t *tables) owners(r *graph.Reader, table string, key any) []report.Ref {
	switch k := key.(type) {
	case string:
		if kind := objects[table]; kind != nil {
			return []report.Ref{store.RefOf(kind, k)}
		}
		return routeRef(k)
	case hostKey:
		if vh, ok := t.virtualHosts.Get(r, k); ok && len(vh.at) > 0 && table == t.virtualHosts.Name {
			return vh.at
		}
		return []report.Ref{store.RefOf(store.Gateways, k.gateway)}
	case model.ClusterID:
		return clusterOwner(k)
	case clusterKey:
		return append(clusterOwner(k.cluster), store.RefOf(store.Gateways, k.gateway))
	case objectid.Target:
		if k.Imported() {
			return []report.Ref{store.RefOf(store.InferencePoolImports, k.Pool.String())}
		}
		return []report.Ref{store.RefOf(store.InferencePools, k.Pool.String())}
	case listenerKey:
		return []report.Ref{store.RefOf(store.Gateways, k.gateway)}
	case blockKey:
		return []report.Ref{store.RefOf(store.Gateways, k.gateway)}
	case interface{ of() string }:
		return []report.Ref{store.RefOf(store.Gateways, k.of())}
	}
	return nil
}

func routeRef(key string) []report.Ref {
	kind, id := store.ParseTargetKey(key)
	for _, k := range []store.Kind{store.HTTPRoutes, store.GRPCRoutes, store.TLSRoutes, store.TCPRoutes,
		store.UDPRoutes} {
		if k.Kind() == kind {
			return []report.Ref{store.RefOf(k, id)}
		}
	}
	return nil
}

func clusterOwner(id model.ClusterID) []report.Ref {
	switch id.Kind {
	case model.FixedKind:
		return nil
	case model.PoolKind:
		return []report.Ref{store.RefOf(store.InferencePools, id.Key())}
	case model.ImportKind, model.ParentKind, model.ImportPickerKind, model.PeerKind:
		return []report.Ref{store.RefOf(store.InferencePoolImports, id.Key())}
	}
	return []report.Ref{services.RefOf(id)}
}
