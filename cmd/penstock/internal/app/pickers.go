package app

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/picker/probe"
	"github.com/penstock-project/penstock/translator/model"
)

// remotePickers puts on the board of an import what probes of its pickers have found. Where the cluster set writes an entry of an import, the
// conditions of that entry have it.
type remotePickers struct {
	board *status.Board
	store *store.Store
	log   *slog.Logger

	mu      sync.Mutex
	located map[model.ClusterID]model.ExternalPicker
	answers map[model.ClusterID]probe.Answer // those with something to report
}

func newRemotePickers(b *status.Board, s *store.Store, log *slog.Logger) *remotePickers {
	return &remotePickers{board: b, store: s, log: log, located: map[model.ClusterID]model.ExternalPicker{}, answers: map[model.ClusterID]probe.Answer{}}
}

// follow updates where imports have their pickers.
func (p *remotePickers) follow(pickers []model.ExternalPicker, gone []model.ClusterID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range gone {
		delete(p.located, id)
	}
	for _, e := range pickers {
		if e.Cluster.Kind != model.ImportPickerKind {
			continue
		}
		p.located[e.Cluster] = e
		if _, ok := p.answers[e.Cluster]; ok {
			p.report(e.Cluster)
		}
	}
}

// answered takes the result of a probe over.
func (p *remotePickers) answered(id model.ClusterID, is probe.Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was, reported := p.answers[id]
	if is.Mute != "" && is.Mute != was.Mute {
		p.log.Warn("the health of a remote picker is unknown", "picker", id.String(), "error", is.Mute)
	}
	if is.Down == "" && is.Mute == "" {
		delete(p.answers, id)
	} else {
		p.answers[id] = is
	}
	if reported || is.Down != "" || is.Mute != "" {
		p.report(id)
	}
}

// report puts what is known of a picker on the board. p.mu is held.
func (p *remotePickers) report(id model.ClusterID) {
	is, at := p.answers[id], p.located[id]
	owner := report.Ref{Group: store.InferencePoolImports.Group(), Kind: store.InferencePoolImports.Kind(), Namespace: id.Namespace, Name: id.Name}
	rep := report.Report{Owner: owner}
	found := func(field, problem, fix string) {
		rep.Findings = append(rep.Findings, report.Finding{Severity: report.Warning, Owner: owner, Field: at.Field + field, Problem: "cluster " + id.Member + ": " + problem, Fix: fix})
	}
	if _, offered := store.Offers.Get(p.store.View(), id.Namespace+"/"+store.OfferName(id.Name, id.Member)); is.Down != "" && !offered {
		found("", "its picker fails: "+is.Down, "see that it runs there and can be reached from here")
	}
	if is.Mute != "" {
		found(".health", fmt.Sprintf("the health of its picker is unknown: port %d: %s", at.Health.Port, is.Mute), "correct the port, the Secret that secretRef names, or the BackendTLSPolicy")
	}
	source := status.Instance(status.Pickers, id.String())
	if len(rep.Findings) == 0 {
		p.board.Replace(source)
		return
	}
	p.board.Replace(source, rep)
}
