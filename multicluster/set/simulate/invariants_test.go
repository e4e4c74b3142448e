package simulate

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/xds/resource"
)

// watched has the earlier observations of a process, with which invariants are checked.
type watched struct {
	withdrawn map[registry.RecordID]registry.Stamp // the stamps of withdrawals, by member and pool
	exported  map[registry.RecordID]bool           // exports without a withdrawal
	left      map[registry.RecordID]bool           // exports that drain because their member left, or had left
	checked   map[string]string                    // each member's state at the last check
	shown     map[string]string                    // the last log line about each member
	shares    map[string]string                    // each member's data before an event (share)
	held      map[string]int                       // number of each member's exports at the last check
	most      int                                  // each member's share at the last check
	members   registry.WatchSet                    // watches the members since the last check
	revision  uint64
}

// unchanged reports whether the process's members and store are unchanged since the last check.
func (w *watched) unchanged() bool {
	for changed := range w.members {
		select {
		case <-changed:
			return false
		default:
		}
	}
	return w.members != nil
}

// checkAll checks the invariants of all processes. It runs after each event.
func (w *world) checkAll() {
	for _, n := range w.nodes {
		for _, p := range n.processes {
			p.check()
		}
	}
}

func (p *process) check() {
	w := p.node.w
	p.mu.Lock()
	panicked := p.panicked
	p.mu.Unlock()
	if panicked != "" {
		w.violated("%s panicked: %s", p.id, panicked)
		return
	}
	if p.watched.withdrawn == nil {
		p.watched = watched{
			withdrawn: map[registry.RecordID]registry.Stamp{}, exported: map[registry.RecordID]bool{},
			left:    map[registry.RecordID]bool{},
			held:    map[string]int{},
			checked: map[string]string{}, shown: map[string]string{}, shares: map[string]string{},
		}
	}
	r := p.set.Registry()
	if revision := p.store.View().Revision(); p.watched.unchanged() && p.watched.revision == revision {
		return
	} else {
		p.watched.revision, p.watched.members = revision, registry.NewWatchSet()
	}
	most, bytes := r.Share()
	before := p.watched.most // the share may have shrunk since the last check
	p.watched.most = most
	for _, m := range r.Members(p.watched.members) {
		if now := fmt.Sprint(m.UID, m.State, m.Known, m.Connected(),
			r.Count(m.Name)); p.watched.checked[m.Name] == now {
			continue
		} else {
			p.watched.checked[m.Name] = now
		}
		list, size := r.ExportsOf(m.Name), 0
		var text []string
		for _, e := range list {
			size += e.Size
			p.checkReturn(w.node(m.Name), m, e)
			p.checkSilence(w.node(m.Name), e)
			if !e.Withdrawn() && len(text) < 8 {
				text = append(text, fmt.Sprintf("%s/%s %d.%d %d endpoints", e.Pool.Namespace, e.Pool.Name,
					e.Stamp.Epoch, e.Stamp.Sequence, len(e.Entry.Endpoints)))
			}
		}
		// If a share shrinks, a member keeps its exports, even over a restart, but may not add any.
		held, began := p.watched.held[m.Name]
		if p.watched.held[m.Name] = len(list); began && len(list) > max(most, before, held) || len(list) > budget ||
			size > bytes {
			w.violated("%s holds %d exports and %d bytes of member %s, whose share is %d and %d",
				p.id, len(list), size, m.Name, most, bytes)
		}
		line := fmt.Sprintf("%s sees %s %s: %s", p.id, m.Name, m.State, strings.Join(text, ", "))
		if p.watched.shown[m.Name] != line {
			p.watched.shown[m.Name] = line
			w.note("%s", line)
		}
	}
	for _, o := range store.Offers.All(p.store.View()) {
		if o.Namespace != "team" {
			w.violated("%s imports %s/%s of %s, and allows it namespace team alone",
				p.id, o.Namespace, o.Import, o.Cluster.Name)
		}
	}
}

// checkReturn checks that a withdrawn export returns only with a later stamp of its exporter.
func (p *process) checkReturn(exporter *node, m registry.Member, e *registry.Export) {
	id := registry.RecordID{Cluster: m.Name, Pool: e.Pool}
	if e.Withdrawn() {
		if !p.watched.left[id] {
			p.watched.withdrawn[id] = e.Stamp
		}
		return
	}
	delete(p.watched.left, id)
	at, withdrawn := p.watched.withdrawn[id]
	delete(p.watched.withdrawn, id)
	if !withdrawn || e.Stamp.Compare(at) > 0 || exporter.lied() || exporter.rewound() || e.Entry.RoutingMode == "" {
		return
	}
	p.node.w.violated("%s has export %s/%s of %s again at %v, and it was withdrawn at %v",
		p.id, e.Pool.Namespace, e.Pool.Name, m.Name, e.Stamp, at)
}

// forget drops the observations about a member that leaves or rejoins, because a user has then
// decided about its exports.
func (p *process) forget(member string) {
	for _, e := range p.set.Registry().ExportsOf(member) {
		if p.watched.left != nil {
			p.watched.left[registry.RecordID{Cluster: member, Pool: e.Pool}] = true
		}
	}
	maps.DeleteFunc(p.watched.withdrawn, func(id registry.RecordID, _ registry.Stamp) bool {
		return id.Cluster == member
	})
	maps.DeleteFunc(p.watched.exported, func(id registry.RecordID, _ bool) bool { return id.Cluster == member })
}

// unchanged is how long after a pool's last change all members must have it.
const unchanged = 2 * time.Minute

// checkSilence checks that only its exporter withdraws an export.
func (p *process) checkSilence(exporter *node, e *registry.Export) {
	id := registry.RecordID{Cluster: exporter.name, Pool: e.Pool}
	exported := p.watched.exported[id]
	if p.watched.exported[id] = !e.Withdrawn(); !exported || !e.Withdrawn() || exporter.lied() {
		return
	}
	for _, pool := range exporter.pools {
		same := pool.namespace == e.Pool.Namespace && pool.name == e.Pool.Name
		if same && pool.exportedTo(p.node.name) && time.Since(pool.changed) > unchanged {
			p.node.w.violated("%s has %s of %s withdrawn, which exports it", p.id, pool.key(), exporter.name)
		}
	}
}

// lied reports whether a node was ever hostile.
func (n *node) lied() bool { return !n.hostile.IsZero() }

// rewound reports whether a node's state, and so its stamps, may have gone back.
func (n *node) rewound() bool { return n.lost || n.disk.lied }

// checkLoaded checks that a starting process loads the saved records, or newer versions of them.
func (n *node) checkLoaded(p *process, list []registry.Record, err error) {
	defer func() {
		n.kept, n.dropped = map[registry.RecordID]registry.Record{}, map[registry.RecordID]bool{}
		for _, r := range list {
			n.kept[r.RecordID] = r
		}
	}()
	if n.rewound() {
		return
	}
	if err != nil {
		n.w.violated("%s cannot read its records: %v", p.id, err)
	}
	for _, id := range slices.SortedFunc(maps.Keys(n.kept), registry.RecordID.Compare) {
		saved := n.kept[id]
		i := slices.IndexFunc(list, func(r registry.Record) bool { return r.RecordID == id })
		if i < 0 {
			continue // dropped since the last save, perhaps by an interrupted save
		}
		loaded, exporter := list[i], n.w.node(id.Cluster)
		if loaded.UID == saved.UID && loaded.Stamp.Compare(saved.Stamp) < 0 && !exporter.rewound() && !exporter.lied() {
			n.w.violated("%s starts with the record of %s %s at %v, and had saved it at %v",
				p.id, id.Cluster, id.Pool, loaded.Stamp, saved.Stamp)
		}
	}
	for _, r := range list {
		if n.dropped[r.RecordID] {
			n.w.violated("%s starts with the record of %s %s, which it had dropped", p.id, r.Cluster, r.Pool)
		}
	}
}

func (w *world) node(name string) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// share describes a member's data in a process: its exports, Offers, and endpoints for Envoys.
func (p *process) share(member string) string {
	var out strings.Builder
	for _, e := range p.set.Registry().ExportsOf(member) {
		fmt.Fprintf(&out, "%v %v %v %v %q %v\n", e.Pool, e.Stamp, e.Withdrawn(), e.Draining, e.Unread, hash(e.Entry))
	}
	for _, o := range store.Offers.All(p.store.View()) {
		if o.Cluster.Name == member {
			fmt.Fprintf(&out, "%s %v\n", o.Name, hash(o.Cluster))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ref := range slices.SortedFunc(maps.Keys(p.resources), resource.Ref.Compare) {
		if ref.Type == resource.Endpoints && strings.Contains("/"+ref.Name+"/", "/"+member+"/") {
			fmt.Fprintf(&out, "%s %s\n", ref, p.resources[ref])
		}
	}
	return out.String()
}

func hash(value any) uint64 {
	h := fnv.New64a()
	raw, _ := json.Marshal(value)
	_, _ = h.Write(raw)
	return h.Sum64()
}

// before runs before a message with exports arrives at a process. It records the other members'
// data there.
func (w *world) before(e *event) {
	at, from, ok := arrives(e.name)
	if !ok {
		return
	}
	for _, p := range w.node(at).processes {
		for _, n := range w.nodes {
			if n.name != from && n.name != at {
				p.watched.shares[n.name] = p.share(n.name)
			}
		}
	}
}

// after checks that a message of one member does not affect another member.
func (w *world) after(e *event) {
	at, from, ok := arrives(e.name)
	if !ok {
		return
	}
	for _, p := range w.node(at).processes {
		for _, n := range w.nodes {
			if n.name == from || n.name == at {
				continue
			}
			if now := p.share(n.name); now != p.watched.shares[n.name] {
				w.violated("%s: a message of %s changed what it has of %s:\n%s",
					p.id, from, n.name, cmp.Diff(p.watched.shares[n.name], now))
			}
		}
	}
}

// checkArrived checks, some time after all faults have ended, that each importer has exactly the
// exports that each exporter exports to it. This also holds after a lost epoch, and for a node that
// was hostile.
func (w *world) checkArrived() {
	for _, to := range w.nodes {
		for _, exporter := range w.nodes {
			if to == exporter {
				continue
			}
			if text := to.own().missing(exporter); text != "" {
				w.violated("%v after all faults have healed, %s", time.Since(w.began)-healed, text)
			}
		}
	}
}

// missing describes the exports of another node that a process lacks; "": none.
func (p *process) missing(exporter *node) string {
	wanted, has := map[string]inferenceapi.ImportedCluster{}, map[string]inferenceapi.ImportedCluster{}
	from := exporter.own()
	from.mu.Lock()
	for _, e := range from.exports {
		if e.Pool.Namespace == "team" && (e.To == nil || slices.Contains(e.To, p.node.name)) {
			wanted[e.Pool.Name] = e.Entry
		}
	}
	from.mu.Unlock()
	for _, o := range store.Offers.All(p.store.View()) {
		if entry := o.Cluster; entry.Name == exporter.name {
			if len(entry.Conditions) == 1 && entry.Conditions[0].Reason == "Draining" && exporter.draining {
				entry.Conditions = nil
			}
			has[o.Import] = entry
		}
	}
	// An export that arrives in several messages may have its endpoints in another order.
	unordered := cmpopts.SortSlices(func(a, b inferenceapi.ImportedEndpoint) bool { return a.Address < b.Address })
	if diff := cmp.Diff(wanted, has, unordered); diff != "" {
		return fmt.Sprintf("%s has not what %s exports (-) but (+):\n%s", p.id, from.id, diff)
	}
	return ""
}
