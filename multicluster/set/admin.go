package set

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// Status is the cluster set as this process sees it. The commands read it from the admin page.
type Status struct {
	// Cluster is the name of this cluster; "" without a ClusterSet.
	Cluster  string `json:"cluster"`
	Draining bool   `json:"draining,omitempty"` // members send no new requests to this cluster
	// Member is the entry, in YAML, that other ClusterSets need for this cluster; "" until this
	// cluster has a certificate.
	Member string `json:"member,omitempty"`
	// Hub means that the process is a hub. Then Members is empty, and the page /members lists the
	// members.
	Hub bool `json:"hub,omitempty"`
	// InFlight counts the requests in flight that came from other clusters, and whose server this
	// process's picker chose.
	InFlight int64 `json:"inFlight"`
	// Uncounted lists the exported pools ("namespace/name") whose requests InFlight omits.
	Uncounted []string `json:"uncounted,omitempty"`
	DrainTime Duration `json:"drainTime"` // the flag --drain-time
	// Traffic counts requests to imports with several clusters that this cluster served itself.
	Traffic *Traffic       `json:"traffic,omitempty"`
	Members []MemberStatus `json:"members"`
}

// Duration is a time.Duration that marshals as text, such as 10m0s.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// MemberStatus is the state of a member.
type MemberStatus struct {
	Name      string         `json:"name"`
	State     registry.State `json:"state"`
	Connected bool           `json:"connected"`
	// Unacknowledged means that the member has not applied the last change of exports or draining.
	Unacknowledged bool `json:"unacknowledged,omitempty"`
	// Updated is when this process received the member's last update; zero: never.
	Updated time.Time `json:"updated,omitzero"`
	// Exports are this cluster's pools that the member may import, and Imports the member's
	// exports. Both are sorted.
	Exports  []PoolStatus `json:"exports"`
	Imports  []PoolStatus `json:"imports"`
	Findings []string     `json:"findings,omitempty"`
	// Denied means that the member's connection is denied, or that its last update had no effect.
	// The first of Findings is the reason.
	Denied bool `json:"denied,omitempty"`
	// Traffic counts the requests to the member that Envoys reported to this process; nil: none.
	Traffic *Traffic `json:"traffic,omitempty"`
	// Published has CA certificates, in PEM, that vouch for the member beside its bundle in the
	// ClusterSet.
	Published string `json:"published,omitempty"`
	// PublishedUnder is the Fingerprint of the ClusterSet's bundle that authenticated Published.
	// With another bundle, Published is not trusted.
	PublishedUnder string `json:"publishedUnder,omitempty"`
}

// Fingerprint returns the SHA-256 of a bundle in hexadecimal digits.
func Fingerprint(bundle string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(bundle))) }

// Traffic counts the requests to a member since this process started.
type Traffic struct {
	// Served counts responses with a status below 500. Failed counts other statuses and missing
	// responses. Declined counts requests that no server began. Spilled counts the requests, with
	// any outcome, that a pool of this cluster spilled to the member.
	Served   uint64 `json:"served"`
	Failed   uint64 `json:"failed"`
	Declined uint64 `json:"declined"`
	Spilled  uint64 `json:"spilled"`
	// Bytes is the size of the response bodies of Served. FirstByte is their mean time to the first
	// byte.
	Bytes     uint64   `json:"bytes"`
	FirstByte Duration `json:"firstByte"`
}

// PoolStatus states whether an importer imports a pool of an exporter.
type PoolStatus struct {
	Pool string `json:"pool"` // "namespace/name"
	// State is Imported, Draining, or the reason why the pool is not imported.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
}

const (
	Imported = "Imported"
	Draining = "Draining"
	pending  = "Pending"
)

// admin records what Status reports. It is safe for concurrent use.
type admin struct {
	mu      sync.Mutex
	updated map[string]time.Time
	here    map[objectid.Pool][]registry.Placement
	changed chan struct{}
}

func newAdmin() *admin {
	return &admin{updated: map[string]time.Time{}, here: map[objectid.Pool][]registry.Placement{},
		changed: make(chan struct{})}
}

func (a *admin) received(updates []registry.Update, rejected []registry.Rejection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, u := range updates {
		if !slices.ContainsFunc(rejected, func(r registry.Rejection) bool { return r.Member == u.Member }) {
			a.updated[u.Member] = time.Now()
		}
	}
}

func (a *admin) assembled(pools []objectid.Pool, list []registry.Placement) (changed []registry.RecordID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := map[registry.RecordID]registry.Placement{}
	for _, p := range pools {
		for _, pl := range a.here[p] {
			before[registry.RecordID{Cluster: pl.Member, Pool: p}] = pl
		}
		delete(a.here, p)
	}
	for _, p := range list {
		a.here[p.Pool] = append(a.here[p.Pool], p)
		id := registry.RecordID{Cluster: p.Member, Pool: p.Pool}
		if old := before[id]; old.Reason != p.Reason || old.Message != p.Message {
			changed = append(changed, id)
		}
	}
	return changed
}

func (a *admin) notify() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *admin) watch() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

func (a *admin) lastUpdate(member string) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.updated[member]
}

func (a *admin) placement(member string, p objectid.Pool) (registry.Placement, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.here[p], func(pl registry.Placement) bool { return pl.Member == member })
	if i < 0 {
		return registry.Placement{}, false
	}
	return a.here[p][i], true
}

// Status returns the Status of the cluster set. ws, which may be nil, fires when the Status may
// have changed, except for times and counts of requests.
func (s *Set) Status(ws registry.WatchSet) Status {
	ws.Add(s.admin.watch())
	members := s.registry.Members(ws)
	out := Status{Members: []MemberStatus{}, DrainTime: Duration(s.cfg.Drain)}
	if s.cfg.InFlight != nil {
		out.InFlight = s.cfg.InFlight()
	}
	s.mu.Lock()
	if s.adopted.spec != nil {
		out.Cluster, out.Draining = s.adopted.name, s.adopted.spec.Spec.Draining
	}
	decisions := s.sortedDecisions()
	rejected := maps.Clone(s.problems.rejected)
	f, spec := s.link.federation, s.adopted.spec
	s.mu.Unlock()
	serves := f != nil && s.cfg.Listen != nil && s.leads()
	if out.Cluster != "" {
		out.Member, _ = OwnMember(s.cfg.StateDir) // an unreadable file counts as missing
	}
	for _, d := range decisions {
		if e := d.Export; e != nil && (e.Entry.RoutingMode == inferenceapi.ParentMode ||
			e.Entry.EndpointPicker == nil || e.Entry.EndpointPicker.Pool == "") {
			out.Uncounted = append(out.Uncounted, d.Pool.String())
		}
	}
	var traffic map[string]Traffic
	if s.cfg.Traffic != nil {
		traffic = s.cfg.Traffic()
	}
	if t, ok := traffic[out.Cluster]; ok {
		out.Traffic = &t
	}
	for _, m := range members {
		ms := MemberStatus{
			Name: m.Name, State: m.State, Connected: m.Connected(), Updated: s.admin.lastUpdate(m.Name),
			Exports: s.exportsTo(m.Name, decisions), Imports: s.importsOf(m.Name),
		}
		if serves {
			acknowledged, changed := f.Acknowledged(m.Name)
			if ms.Unacknowledged = !acknowledged; !acknowledged {
				ws.Add(changed)
			}
		}
		if problem := rejected[m.Name]; problem != "" {
			ms.Denied, ms.Findings = true, append([]string{problem}, ms.Findings...)
		}
		if t, ok := traffic[m.Name]; ok {
			ms.Traffic = &t
		}
		ms.Published, ms.PublishedUnder = publishedBundle(spec, &m)
		out.Members = append(out.Members, ms)
	}
	return out
}

func publishedBundle(spec *v1alpha1.ClusterSet, m *registry.Member) (bundle, under string) {
	if spec == nil {
		return "", ""
	}
	i := slices.IndexFunc(spec.Spec.Members, func(o v1alpha1.ClusterSetMember) bool { return o.Name == m.Name })
	if i < 0 || spec.Spec.Members[i].Peer == nil {
		return "", ""
	}
	written := spec.Spec.Members[i].Peer.Bundle
	published, _ := bytes.CutPrefix(federation.TrustedBundle([]byte(written), m.Bundle), []byte(written))
	if len(published) == 0 {
		return "", ""
	}
	return string(published), Fingerprint(written)
}

func (s *Set) exportsTo(member string, decisions []export.Decision) []PoolStatus {
	out := []PoolStatus{}
	for _, d := range decisions {
		if !d.Asked || d.Export != nil && !d.Export.IsFor(member) {
			continue
		}
		ps := PoolStatus{Pool: d.Pool.String(), State: d.Reason, Message: d.Message}
		if d.Export != nil {
			ps.State = export.MemberUnreachableReason
			for _, p := range s.registry.Placements(nil, d.Pool) {
				if p.Member == member && d.Export.Has(p) {
					ps.State, ps.Message = stateOf(p)
				}
			}
		}
		out = append(out, ps)
	}
	return out
}

func (s *Set) importsOf(member string) []PoolStatus {
	out := []PoolStatus{}
	for _, e := range s.registry.ExportsOf(member) {
		ps := PoolStatus{Pool: e.Pool.String(), State: pending}
		if p, ok := s.admin.placement(member, e.Pool); ok {
			ps.State, ps.Message = stateOf(p)
		}
		if e.Draining && (ps.State == Imported || e.Withdrawn()) {
			ps.State = Draining
		}
		out = append(out, ps)
	}
	return out
}

func stateOf(p registry.Placement) (state, message string) {
	if p.Reason == "" {
		return Imported, ""
	}
	return printable(p.Reason), printable(p.Message)
}

// printable replaces characters of a member's text that a terminal would interpret.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

const debounce = 100 * time.Millisecond

// Page serves Status as JSON. With ?watch it sends one line at once and one line after each change,
// until the client disconnects.
func (s *Set) Page(w http.ResponseWriter, r *http.Request) {
	lines := json.NewEncoder(w)
	if !r.URL.Query().Has("watch") {
		w.Header().Set("content-type", "application/json")
		lines.SetIndent("", "  ")
		_ = lines.Encode(s.Status(nil)) // fails only when the client disconnects
		return
	}
	w.Header().Set("content-type", "application/jsonl")
	flush := http.NewResponseController(w)
	_ = s.stream(r.Context(), func(st Status) error { return errors.Join(lines.Encode(st), flush.Flush()) })
}

func (s *Set) stream(ctx context.Context, send func(Status) error) error {
	last := ""
	for {
		ws := registry.NewWatchSet()
		st := s.Status(ws)
		if now := st.comparable(); now != last {
			last = now
			if err := send(st); err != nil {
				return err
			}
		}
		if err := ws.WatchCtx(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(debounce):
		}
	}
}

// comparable returns a text of st without times and counts of requests.
func (st Status) comparable() string {
	st.InFlight, st.Members = 0, slices.Clone(st.Members)
	for i := range st.Members {
		st.Members[i].Updated, st.Members[i].Traffic = time.Time{}, nil
	}
	text, err := json.Marshal(st)
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(text)
}
