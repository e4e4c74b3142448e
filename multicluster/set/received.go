package set

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/imports"
	"github.com/penstock-project/penstock/multicluster/registry"
)

func (s *Set) apply(updates ...registry.Update) bool {
	before, bundles := s.shown(updates), s.bundles(updates)
	changed, rejected := s.registry.Apply(updates...)
	s.admin.received(updates, rejected)
	s.mu.Lock()
	for _, u := range updates {
		delete(s.problems.rejected, u.Member)
	}
	for _, r := range rejected {
		s.problems.rejected[r.Member] = noEffect + r.Problem
	}
	s.mu.Unlock()
	if !reflect.DeepEqual(s.bundles(updates), bundles) {
		s.republish()
	}
	s.assemble(changed)
	if slices.Equal(s.shown(updates), before) && !s.reportDue() {
		s.admin.notify()
	} else {
		s.reportSoon()
	}
	s.wakeUp()
	return len(rejected) == 0
}

// shown returns the state that this process reports about the member of each update. Most updates
// only renew a lease, change no state, and need no new report.
func (s *Set) shown(updates []registry.Update) []string {
	out := make([]string, len(updates))
	for i, u := range updates {
		known, _ := s.registry.Member(u.Member)
		unread := ""
		if n := s.registry.Count(u.Member).Unread; n > 0 {
			unread = s.unread(u.Member, n)
		}
		s.mu.Lock()
		problem := s.problems.rejected[u.Member]
		s.mu.Unlock()
		out[i] = fmt.Sprintf("%s %q %q %d %q %q", known.State, problem, unread, s.importer.Beyond(u.Member),
			s.unnamed(u.Member), s.registry.PodCIDRs(u.Member))
	}
	return out
}

const listed = 8

func (s *Set) unnamed(member string) string {
	first, n := s.importer.Unnamed(member, listed)
	if n == 0 {
		return ""
	}
	names := make([]string, len(first))
	for i, p := range first {
		names[i] = p.String()
	}
	line := fmt.Sprintf("allow: {pools: [%s]}", strings.Join(names, ", "))
	if n > len(first) {
		line += fmt.Sprintf(" # and %d more, or their namespaces", n-len(first))
	}
	return line
}

func (s *Set) disconnected(member string, connected bool) {
	s.assemble(s.registry.Connected(member, connected))
	s.reportSoon()
}

func (s *Set) problem(member, problem string) {
	s.mu.Lock()
	s.problems.rejected[member] = noEffect + problem
	s.mu.Unlock()
	s.reportSoon()
}

func (s *Set) unread(member string, n int) string {
	for _, e := range s.registry.ExportsOf(member) {
		if e.Unread != "" {
			return fmt.Sprintf("%d of its exports are not up to date here, the first one is %s/%s: %s", n,
				e.Pool.Namespace, e.Pool.Name, e.Unread)
		}
	}
	return ""
}

func (s *Set) placed(in registry.Reports) {
	s.registry.Place(in)
	s.reportSoon()
}

// due collects the pools to assemble. One run of assemble serves all waiting calls, because
// snapshots of many members may change the same imports.
type due struct {
	running sync.Mutex
	// revision is the newest store revision that has been translated. waiting has the placements of
	// newer Offers, because translation may still find an Offer unusable. running guards both.
	revision uint64
	waiting  map[objectid.Pool]untranslated

	mu    sync.Mutex
	pools map[objectid.Pool]struct{}
}

type untranslated struct {
	revision uint64
	placed   []registry.Placement
}

// ready returns a if its store revision has been translated. Otherwise translated returns its
// placements later. The caller holds running.
func (d *due) ready(a imports.Assembled) imports.Assembled {
	for _, p := range a.Pools {
		delete(d.waiting, p)
	}
	if a.Revision <= d.revision {
		return a
	}
	if d.waiting == nil {
		d.waiting = map[objectid.Pool]untranslated{}
	}
	for _, p := range a.Pools {
		d.waiting[p] = untranslated{revision: a.Revision}
	}
	for rest := a.Placed; len(rest) > 0; { // rest is sorted by pool
		n := 1
		for n < len(rest) && rest[n].Pool == rest[0].Pool {
			n++
		}
		d.waiting[rest[0].Pool] = untranslated{a.Revision, rest[:n:n]}
		rest = rest[n:]
	}
	return imports.Assembled{}
}

// translated records the newest translated store revision, and returns the placements that waited
// for it. The caller holds running.
func (d *due) translated(revision uint64) (seen imports.Assembled) {
	d.revision = revision
	for p, w := range d.waiting {
		if w.revision <= revision {
			seen.Pools, seen.Placed = append(seen.Pools, p), append(seen.Placed, w.placed...)
			delete(d.waiting, p)
		}
	}
	return seen
}

func (d *due) add(pools []objectid.Pool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pools == nil {
		d.pools = map[objectid.Pool]struct{}{}
	}
	for _, p := range pools {
		d.pools[p] = struct{}{}
	}
}

func (d *due) take() []objectid.Pool {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := slices.Collect(maps.Keys(d.pools))
	d.pools = nil
	return taken
}

func (s *Set) assemble(pools []objectid.Pool) {
	if len(pools) == 0 {
		return
	}
	s.due.add(pools)
	s.due.running.Lock()
	defer s.due.running.Unlock()
	if pools = s.due.take(); len(pools) == 0 {
		return
	}
	a, err := s.importer.Assemble(pools)
	turned := s.admin.assembled(a.Pools, a.Placed)
	if err == nil {
		s.registry.MarkUnsaved(append(turned, a.Turned...)...)
		s.place(s.due.ready(a))
	} else {
		s.cfg.Log.Error("exports of members cannot be imported", "error", err)
	}
	if s.cfg.Imported != nil {
		s.cfg.Imported(a.Pools)
		return
	}
	ready := make(map[objectid.Pool]bool, len(a.Ready))
	owners := make([]report.Ref, len(a.Ready))
	for i, p := range a.Ready {
		ready[p], owners[i] = true, store.RefOf(store.InferencePoolImports, p.String())
	}
	s.cfg.Board.Remove(status.Imports, owners...)
	for _, p := range a.Pools {
		if !ready[p] {
			s.show(p)
		}
	}
}

// The caller holds due.running.
func (s *Set) place(a imports.Assembled) {
	if len(a.Pools) == 0 {
		return
	}
	if err := s.link.federation.SetPlaced(a.Pools, a.Placed); err != nil {
		s.cfg.Log.Error("the state of exports here cannot be published to members", "error", err)
	}
}

// Import returns the status that the cluster set gives the import of a pool. imported is false if
// no member's export of the pool is imported.
func (s *Set) Import(p objectid.Pool, generation int64) (status inferenceapi.InferencePoolImportStatus, imported bool) {
	return s.importer.Status(p, generation)
}

func (s *Set) show(p objectid.Pool) {
	owner := store.RefOf(store.InferencePoolImports, p.String())
	if s.importer.NoneAllowed(p) { // the member's finding covers this export
		s.cfg.Board.Remove(status.Imports, owner)
		return
	}
	imp, _ := s.importer.Status(p, 0)
	rep := report.Report{Owner: owner}
	for _, c := range imp.Conditions {
		if c.Type == imports.ConditionReady && len(imp.Clusters) > 0 && c.Status != metav1.ConditionTrue {
			rep.Conditions = append(rep.Conditions,
				report.Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message})
		}
	}
	for i, cluster := range imp.Clusters {
		for _, c := range cluster.Conditions {
			if c.Type == imports.ConditionReady && c.Status != metav1.ConditionTrue {
				rep.Findings = append(rep.Findings, report.Finding{
					Severity: report.Warning, Owner: owner, Field: fmt.Sprintf("status.clusters[%d].conditions", i),
					Problem: fmt.Sprintf("cluster %s: its condition Ready is %s, reason %s: %s", cluster.Name, c.Status,
						c.Reason, c.Message),
				})
			}
		}
	}
	if len(rep.Conditions)+len(rep.Findings) == 0 {
		s.cfg.Board.Remove(status.Imports, owner)
	} else {
		s.cfg.Board.Set(status.Imports, rep)
	}
}

func (s *Set) wakeUp() { signal(s.signals.wake) }

func (s *Set) expire(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.signals.wake:
		case <-timer.C:
			s.assemble(s.registry.Expire())
			s.republish()
			s.report()
		}
		if wait, ok := s.next(); ok {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
	}
}

func (s *Set) exportedTo(namespace string) []objectid.Pool {
	return slices.DeleteFunc(s.registry.Pools(), func(p objectid.Pool) bool { return p.Namespace != namespace })
}
