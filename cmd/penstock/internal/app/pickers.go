package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/multicluster/traffic/load"
	"github.com/penstock-project/penstock/picker/probe"
	"github.com/penstock-project/penstock/translator/model"
)

// remotePickers reports the results of probes of external pickers: on the Service of a pool's
// picker, or on the import of a remote picker, unless the cluster set writes the import's
// conditions.
type remotePickers struct {
	board *status.Board
	store *store.Store
	log   *slog.Logger

	mu      sync.Mutex
	located map[model.ClusterID]model.ExternalPicker
	answers map[model.ClusterID]probe.Answer
	pages   map[model.ClusterID]string
}

func newRemotePickers(b *status.Board, s *store.Store, log *slog.Logger) *remotePickers {
	return &remotePickers{board: b, store: s, log: log, located: map[model.ClusterID]model.ExternalPicker{},
		answers: map[model.ClusterID]probe.Answer{}, pages: map[model.ClusterID]string{}}
}

func (p *remotePickers) follow(pickers []model.ExternalPicker, gone []model.ClusterID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range gone {
		delete(p.located, id)
		if _, ok := p.pages[id]; ok {
			delete(p.pages, id)
			p.report(id)
		}
	}
	for _, e := range pickers {
		if e.Cluster.Kind != model.ImportPickerKind {
			continue
		}
		p.located[e.Cluster] = e
		_, answered := p.answers[e.Cluster]
		_, read := p.pages[e.Cluster]
		if e.Metrics.TLS == nil {
			delete(p.pages, e.Cluster)
		}
		if answered || read {
			p.report(e.Cluster)
		}
	}
}

func (p *remotePickers) answered(id model.ClusterID, answer probe.Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, reported := p.answers[id]
	if answer.Mute != "" && answer.Mute != before.Mute {
		p.log.Warn("the health of a remote picker is unknown", "picker", id.String(), "error", answer.Mute)
	}
	if answer.Down == "" && answer.Mute == "" {
		delete(p.answers, id)
	} else {
		p.answers[id] = answer
	}
	if reported || answer.Down != "" || answer.Mute != "" {
		p.report(id)
	}
}

func (p *remotePickers) read(pool objectid.Pool, member, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := model.ImportPickerCluster(pool.Namespace, pool.Name, member)
	if _, ok := p.located[id]; !ok {
		return
	}
	if p.pages[id] = why; why == "" {
		delete(p.pages, id)
	} else {
		p.log.Warn("the metrics of a remote picker cannot be read", "picker", id.String(), "error", why)
	}
	p.report(id)
}

func (a *App) followPickers(_ context.Context, c *delivery.Change) {
	a.remotePickers.follow(c.Output.Pickers, c.Output.PickersGone)
	for _, id := range c.Output.PickersGone {
		a.clusterLoads.SetPage(pageOf(&model.ExternalPicker{Cluster: id}))
	}
	for i := range c.Output.Pickers {
		if e := &c.Output.Pickers[i]; e.Cluster.Kind == model.ImportPickerKind {
			a.clusterLoads.SetPage(pageOf(e))
		}
	}
}

func pageOf(e *model.ExternalPicker) load.Page {
	out := load.Page{
		Import: objectid.Pool{Namespace: e.Cluster.Namespace, Name: e.Cluster.Name}, Member: e.Cluster.Member,
		Pool: cmp.Or(e.Pool, e.Cluster.Name),
		Port: e.Metrics.Port, TLS: delivery.PortTLS(&e.Metrics), Authorization: e.Metrics.Authorization,
	}
	for _, a := range e.Addresses {
		if !slices.Contains(out.Addresses, a.Addr.Addr()) {
			out.Addresses = append(out.Addresses, a.Addr.Addr())
		}
	}
	return out
}

// The caller holds p.mu.
func (p *remotePickers) report(id model.ClusterID) {
	answer, at := p.answers[id], p.located[id]
	if id.Kind == model.PickerKind {
		p.reportService(id, answer.Down)
		return
	}
	owner := report.Ref{Group: store.InferencePoolImports.Group(), Kind: store.InferencePoolImports.Kind(),
		Namespace: id.Namespace, Name: id.Name}
	rep := report.Report{Owner: owner}
	found := func(field, problem, fix string) {
		rep.Findings = append(rep.Findings, report.Finding{
			Severity: report.Warning, Owner: owner, Field: at.Field + field,
			Problem: "cluster " + id.Member + ": " + problem, Fix: fix,
		})
	}
	if _, offered := store.Offers.Get(p.store.View(),
		objectid.Join(id.Namespace, store.OfferName(id.Name, id.Member))); answer.Down != "" && !offered {
		found("", "its picker fails: "+answer.Down, "see that it runs there and can be reached from here")
	}
	const fix = "correct the port, the Secret that secretRef names, or the BackendTLSPolicy"
	if answer.Mute != "" {
		found(".health", fmt.Sprintf("the health of its picker is unknown: port %d: %s", at.Health.Port, answer.Mute),
			fix)
	}
	if why := p.pages[id]; why != "" {
		found(".metrics", fmt.Sprintf("the metrics of its picker are not read: port %d: %s", at.Metrics.Port, why), fix)
	}
	source := status.Instance(status.Pickers, id.String())
	if len(rep.Findings) == 0 {
		p.board.Replace(source)
		return
	}
	p.board.Replace(source, rep)
}

func (p *remotePickers) reportService(id model.ClusterID, down string) {
	source := status.Instance(status.Pickers, id.String())
	if down == "" {
		p.board.Replace(source)
		return
	}
	owner := report.Ref{Group: store.Services.Group(), Kind: store.Services.Kind(), Namespace: id.Namespace,
		Name: id.Name}
	p.board.Replace(source, report.Report{Owner: owner, Findings: []report.Finding{{
		Severity: report.Warning, Owner: owner, Field: "spec.ports",
		Problem: fmt.Sprintf("the endpoint picker at port %d fails: %s", id.Port, down),
		Fix: "see that it runs and can be reached from here: meanwhile pools with this picker answer 503, or " +
			"with failureMode FailOpen serve without it",
	}}})
}
