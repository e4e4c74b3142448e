package set

import (
	"context"
	"slices"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/statefile"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/registry"
)

const (
	// loadTimeout bounds how long the first translation waits for stored records. saveTimeout
	// bounds one write of records, and stopTimeout the last one.
	loadTimeout = 5 * time.Second
	saveTimeout = 30 * time.Second
	stopTimeout = 2 * time.Second
	// settleTimeout leaves time for several attempts to connect to the members.
	settleTimeout = 3 * time.Second
	// saveInterval is the time between two writes of records: a hundred members that connect at
	// once cause one.
	saveInterval = time.Second
	// agreeInterval is how long a process that does not lead waits before it reads the leader's
	// records. The leader saves an update within this time.
	agreeInterval = 10 * time.Second
)

// Restore loads the stored exports of members. Without a ClusterSet, they are loaded when the first
// one appears. Call it before the first translation.
func (s *Set) Restore(ctx context.Context) {
	view := s.cfg.Store.View()
	if len(store.ClusterSets.All(view)) > 0 {
		s.adopt(ctx, view)
	}
}

// Settle waits, at most settleTimeout, until all exports that Restore loaded have endpoints, which
// may come from Config.Local or from the members.
func (s *Set) Settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		ws := registry.NewWatchSet()
		missing := s.withoutEndpoints(ws)
		if missing == "" {
			return
		}
		if ws.WatchCtx(ctx) != nil {
			if ctx.Err() == context.DeadlineExceeded {
				s.cfg.Log.Warn("serving without the endpoints of some imports: their members do not answer", "member",
					missing)
			}
			return
		}
	}
}

// withoutEndpoints returns the first Unreachable member that has an export without endpoints; "":
// none has.
func (s *Set) withoutEndpoints(ws registry.WatchSet) string {
	for _, m := range s.registry.Members(ws) {
		if m.State != registry.Unreachable {
			continue
		}
		for _, e := range s.registry.ExportsOf(m.Name) {
			if e.Entry.RoutingMode == inferenceapi.EndpointMode && len(e.Entry.Endpoints) == 0 && !e.Withdrawn() {
				return m.Name
			}
		}
	}
	return ""
}

func (s *Set) load(ctx context.Context) []registry.Record {
	if s.cfg.Records == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	records, err := s.cfg.Records.Load(ctx)
	if err != nil {
		s.cfg.Log.Error("some records of members' exports could not be read", "error", err)
		s.mu.Lock()
		s.problems.damaged = err.Error()
		s.mu.Unlock()
	}
	return s.completed(ctx, records)
}

func (s *Set) completed(ctx context.Context, records []registry.Record) []registry.Record {
	if s.cfg.Local == nil {
		return records
	}
	local, err := s.cfg.Local.Load(ctx)
	if err != nil {
		s.cfg.Log.Warn("some endpoints of members could not be read: requests to them wait until the members connect",
			"error", err)
	}
	locals := make(map[registry.RecordID]*registry.Record, len(local))
	for i := range local {
		locals[local[i].RecordID] = &local[i]
	}
	for i := range records {
		r := &records[i]
		l := locals[r.RecordID]
		if l == nil || r.Pool == (objectid.Pool{}) || l.UID != r.UID || l.Entry.RoutingMode != r.Entry.RoutingMode ||
			len(r.Entry.Endpoints) > 0 {
			continue
		}
		// The endpoints in l may be outdated. Envoy detects which of them respond.
		r.Entry.Endpoints = l.Entry.Endpoints
	}
	return records
}

func (s *Set) keep(ctx context.Context) error {
	if s.cfg.Records == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	led, wait := false, saveInterval
	var agree <-chan time.Time
	var agreed int64
	var outcome, local statefile.Outcome
	for {
		select {
		case <-ctx.Done():
			_ = s.save(context.WithoutCancel(ctx), stopTimeout, led || s.leads(), &outcome, &local)
			return ctx.Err()
		case <-s.registry.Unsaved():
		case <-s.signals.led:
			led = false
		case <-agree:
			agree, agreed = nil, s.registry.Newest()
			if !s.leads() {
				s.agree(ctx, "not all records of the leader could be read")
			}
			continue
		}
		select {
		case <-ctx.Done():
			continue
		case <-time.After(wait):
		}
		if !s.leads() {
			led = false
			if agree == nil && s.registry.Newest() != agreed {
				agree = time.After(agreeInterval)
			}
		} else if !led {
			s.markKept(ctx)
			led = true
		}
		if wait = saveInterval; s.save(ctx, saveTimeout, led, &outcome, &local) != nil {
			wait = retry
		}
	}
}

// agree takes over the ages of exports in the stored records. problem is the log line if not all
// records can be read.
func (s *Set) agree(ctx context.Context, problem string) (kept []registry.Record) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	kept, err := s.cfg.Records.Load(ctx)
	if err != nil {
		s.cfg.Log.Debug(problem, "error", err)
	}
	s.assemble(s.registry.Agree(kept))
	return kept
}

// keepAgain saves the records of pools' exports again, because Kubernetes.Save skips them while
// their namespace does not exist.
func (s *Set) keepAgain(pools []objectid.Pool) {
	var ids []registry.RecordID
	for _, p := range pools {
		for _, e := range s.registry.Exports(nil, p) {
			ids = append(ids, registry.RecordID{Cluster: e.Cluster, Pool: p})
		}
	}
	s.registry.MarkUnsaved(ids...)
}

// markKept marks all records for saving, and outdated stored records for deletion, because the
// previous leader may have saved others.
func (s *Set) markKept(ctx context.Context) {
	kept := s.agree(ctx, "not all records could be read before they are saved")
	var ids []registry.RecordID
	for _, r := range slices.Concat(kept, s.registry.Records()) {
		ids = append(ids, r.RecordID)
	}
	s.registry.MarkUnsaved(ids...)
}

// unsaved returns the records to save, and the ids of the records to delete. A member may publish
// any number of exports that are not imported, so these have no record.
func (s *Set) unsaved() (changed []registry.Record, gone []registry.RecordID) {
	changed, gone = s.registry.TakeUnsaved()
	changed = slices.DeleteFunc(changed, func(r registry.Record) bool {
		if r.Pool == (objectid.Pool{}) || s.importer.Imports(r.RecordID) {
			return false
		}
		gone = append(gone, r.RecordID)
		return true
	})
	for i := range changed {
		if pl, ok := s.admin.placement(changed[i].Cluster, changed[i].Pool); ok && pl.Reason != "" {
			changed[i].Reason, changed[i].Message = stateOf(pl)
		}
	}
	return changed, gone
}

func (s *Set) save(ctx context.Context, within time.Duration, shared bool, outcome, local *statefile.Outcome) error {
	changed, gone := s.unsaved()
	if len(changed)+len(gone) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if s.cfg.Local != nil {
		local.Log(s.cfg.Log, "cluster/records", "endpoints of members that are away then",
			s.cfg.Local.Save(ctx, changed, gone))
	}
	if !shared {
		return nil
	}
	err := s.cfg.Records.Save(ctx, changed, gone)
	outcome.Log(s.cfg.Log, "cluster/records", "exports of members that are away then", err)
	if err != nil {
		for _, r := range changed {
			gone = append(gone, r.RecordID)
		}
		s.registry.MarkUnsaved(gone...)
	}
	return err
}
