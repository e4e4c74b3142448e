package app

import (
	"fmt"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

// OwnerOf returns the InferencePool or InferencePoolImport that defines a pool.
func OwnerOf(pool objectid.Target) report.Ref {
	if pool.Imported() {
		return store.RefOf(store.InferencePoolImports, pool.Pool.String())
	}
	return store.RefOf(store.InferencePools, pool.Pool.String())
}

// reportUnserved reports that a pool serves no request. The zero u removes the report.
func reportUnserved(board *status.Board, pool objectid.Target, u picker.Unserved) {
	source := status.Instance(status.Servers, pool.String())
	if u.Servers == 0 {
		board.Replace(source)
		return
	}
	text := fmt.Sprintf("no request can be served: none of %d servers serves: ", u.Servers)
	if u.Servers == 1 {
		text = "no request can be served: its only server does not serve: "
	}
	text += picker.Named(u.Out, u.Servers)
	rep, field := report.Report{Owner: OwnerOf(pool)}, "spec.selector"
	if pool.Imported() {
		field = "status.clusters"
		text = "cluster " + pool.Member + ": " + text
	} else {
		rep.Conditions = []report.Condition{
			{Type: inference.ConditionServing, Status: report.False, Reason: "NoServer", Message: text},
		}
	}
	rep.Findings = []report.Finding{{
		Severity: report.Warning, Owner: rep.Owner, Field: field, Problem: text,
		Fix: "start the servers, or find out why they fail: penstock status names each",
	}}
	board.Replace(source, rep)
}

func (a *App) addServers(e *Explained) {
	e.Servers = map[string]picker.Serving{}
	var add func([]translator.BackendView)
	add = func(backends []translator.BackendView) {
		for i := range backends {
			if serving, ok := a.servingOf(backends[i].Cluster); ok {
				e.Servers[backends[i].Cluster] = serving
			}
			for _, h := range backends[i].Hops {
				add(h.Backends)
			}
		}
	}
	add(e.Backends)
	e.Without(func(cluster string) bool {
		serving, ok := e.Servers[cluster]
		return ok && serving.Servers > 0 && serving.Serving == 0
	})
}

func (a *App) servingOf(cluster string) (picker.Serving, bool) {
	id, ok := model.ParseClusterID(cluster)
	if !ok {
		return picker.Serving{}, false
	}
	pool := objectid.Target{Pool: objectid.Pool{Namespace: id.Namespace, Name: id.Name}}
	switch id.Kind {
	case model.PoolKind:
	case model.ImportKind, model.ParentKind, model.PeerKind:
		pool.Member = id.Member
	default:
		return picker.Serving{}, false
	}
	return a.picker.ServingOf(pool.String())
}
