package clusterset

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

// Status is the state of the cluster set, as one process knows it.
type Status struct {
	// Cluster is the name of this cluster; "" without a ClusterSet.
	Cluster string `json:"cluster"`
	// Draining: the members send it no new request.
	Draining bool `json:"draining,omitempty"`
	// Member is what other clusters write into their ClusterSet to make this one a member: YAML. ""
	// while there is no certificate.
	Member string `json:"member,omitempty"`
	// Hub: the process is a hub, whose page /members has its members.
	Hub bool `json:"hub,omitempty"`
	// InFlight is how many requests of other clusters this process's picker counts.
	InFlight int64 `json:"inFlight"`
	// Uncounted are the exported pools whose requests of other clusters are not among them,
	// "namespace/name": they arrive at Gateways, or ask another picker.
	Uncounted []string `json:"uncounted,omitempty"`
	DrainTime Duration `json:"drainTime"` // --drain-time
	// Traffic is what became of the requests that imports with several clusters sent to this one
	// itself; nil: there was none.
	Traffic *Traffic       `json:"traffic,omitempty"`
	Members []MemberStatus `json:"members"`
}

// Duration is a time.Duration that JSON has as text, such as 10m0s.
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
	// Unacknowledged: this process publishes, and the member has not acknowledged the last change
	// of this cluster's exports and draining: it may send requests as before.
	Unacknowledged bool `json:"unacknowledged,omitempty"`
	// Updated is when this process received the member's last update; zero: it has received none.
	Updated time.Time `json:"updated,omitzero"`
	// Exports are pools of this cluster that the member may import, and Imports are those that it
	// exports; sorted.
	Exports  []PoolStatus `json:"exports"`
	Imports  []PoolStatus `json:"imports"`
	Findings []string     `json:"findings,omitempty"`
	// Denied: this process denies the connection to the member, or what the member published last
	// has no effect. The first of Findings has the reason.
	Denied bool `json:"denied,omitempty"`
	// Traffic is what became of the requests that Envoys have reported to this process; nil: there
	// was none.
	Traffic *Traffic `json:"traffic,omitempty"`
	// Published has the CA certificates, in PEM, that vouch for the member beside those of the
	// ClusterSet: the member published them over a connection that its certificate has proved to be
	// its own.
	Published string `json:"published,omitempty"`
	// PublishedUnder is Fingerprint of the bundle of the ClusterSet under which it was published:
	// with another one it vouches for nothing. Empty without Published.
	PublishedUnder string `json:"publishedUnder,omitempty"`
}

// Fingerprint is the SHA-256 of a peer's bundle as the ClusterSet has it, in hexadecimal digits.
func Fingerprint(bundle string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(bundle))) }

// Traffic is what became of the requests to a member since this process started.
type Traffic struct {
	// Served requests have a status below 500, Failed another one or no response. Declined ones
	// have been begun by no server there: they go on to another cluster or spill target, if one is
	// left. Spilled are those of all these that pools here have spilled.
	Served   uint64 `json:"served"`
	Failed   uint64 `json:"failed"`
	Declined uint64 `json:"declined"`
	Spilled  uint64 `json:"spilled"`
	// Bytes of the bodies of responses, and the mean time to the first byte, of those that were
	// served.
	Bytes     uint64   `json:"bytes"`
	FirstByte Duration `json:"firstByte"`
}

// PoolStatus is where an export stands at its importer.
type PoolStatus struct {
	Pool string `json:"pool"` // "namespace/name"
	// State is Imported, Draining, or the reason why it is not imported.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
}

// The states of an export that has no reason against it.
const (
	Imported = "Imported"
	Draining = "Draining"
	pending  = "Pending" // it has just arrived
)

// admin is what the Set notes for Status. It is safe for concurrent use.
type admin struct {
	mu      sync.Mutex
	updated map[string]time.Time
	here    map[objectid.Pool][]registry.Placement // where exports of members stand here
	changed chan struct{}                          // closed and replaced when Status may have changed
}

func newAdmin() *admin {
	return &admin{updated: map[string]time.Time{}, here: map[objectid.Pool][]registry.Placement{},
		changed: make(chan struct{})}
}

// received notes whose updates had an effect.
func (a *admin) received(updates []registry.Update, rejected []registry.Rejection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, u := range updates {
		if !slices.ContainsFunc(rejected, func(r registry.Rejection) bool { return r.Member == u.Member }) {
			a.updated[u.Member] = time.Now()
		}
	}
}

// assembled notes where the exports of some pools stand here.
func (a *admin) assembled(pools []objectid.Pool, list []registry.Placement) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range pools {
		delete(a.here, p)
	}
	for _, p := range list {
		a.here[p.Pool] = append(a.here[p.Pool], p)
	}
}

// notify has readers of Status read again.
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

// Status returns the state of the cluster set. ws, which may be nil, fires when Status may return
// something else; the ages of updates aside.
func (s *Set) Status(ws registry.WatchSet) Status {
	ws.Add(s.admin.watch())
	members := s.registry.Members(ws)
	out := Status{Members: []MemberStatus{}, DrainTime: Duration(s.cfg.Drain)}
	if s.cfg.InFlight != nil {
		out.InFlight = s.cfg.InFlight()
	}
	s.mu.Lock()
	out.Cluster = s.name
	if s.spec == nil {
		out.Cluster = ""
	} else {
		out.Draining = s.spec.Spec.Draining
	}
	decisions := slices.SortedFunc(maps.Values(s.decisions),
		func(a, b export.Decision) int { return a.Pool.Compare(b.Pool) })
	rejected := maps.Clone(s.rejected)
	f, spec := s.federation, s.spec
	s.mu.Unlock()
	serves := f != nil && s.cfg.Listen != nil && s.leads()
	if out.Cluster != "" {
		out.Member, _ = OwnMember(s.cfg.StateDir) // what cannot be read is not shown
	}
	for _, d := range decisions {
		if e := d.Export; e != nil &&
			(e.Entry.RoutingMode == inferenceapi.ParentMode || e.Entry.EndpointPicker == nil ||
				e.Entry.EndpointPicker.Pool == "") {
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
		is := MemberStatus{
			Name: m.Name, State: m.State, Connected: m.Connected(), Updated: s.admin.lastUpdate(m.Name),
			Exports: s.exportsTo(m.Name, decisions), Imports: s.importsOf(m.Name),
		}
		if serves {
			acknowledged, changed := f.Acknowledged(m.Name)
			if is.Unacknowledged = !acknowledged; !acknowledged {
				ws.Add(changed)
			}
		}
		if problem := rejected[m.Name]; problem != "" {
			is.Denied, is.Findings = true, append([]string{problem}, is.Findings...)
		}
		if t, ok := traffic[m.Name]; ok {
			is.Traffic = &t
		}
		is.Published, is.PublishedUnder = publishedBundle(spec, &m)
		out.Members = append(out.Members, is)
	}
	return out
}

// publishedBundle returns MemberStatus.Published, and PublishedUnder.
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

// exportsTo lists this cluster's exports that are for a member.
func (s *Set) exportsTo(member string, decisions []export.Decision) []PoolStatus {
	out := []PoolStatus{}
	for _, d := range decisions {
		if !d.Asked || d.Export != nil && d.Export.To != nil && !slices.Contains(d.Export.To, member) {
			continue
		}
		is := PoolStatus{Pool: d.Pool.String(), State: d.Reason, Message: d.Message}
		if d.Export != nil {
			is.State = export.MemberUnreachableReason
			for _, p := range s.registry.Placements(nil, d.Pool) {
				if p.Member == member && d.Export.Has(p) {
					is.State, is.Message = stateOf(p)
				}
			}
		}
		out = append(out, is)
	}
	return out
}

// importsOf lists what a member exports.
func (s *Set) importsOf(member string) []PoolStatus {
	out := []PoolStatus{}
	for _, e := range s.registry.ExportsOf(member) {
		is := PoolStatus{Pool: e.Pool.String(), State: pending}
		if p, ok := s.admin.placement(member, e.Pool); ok {
			is.State, is.Message = stateOf(p)
		}
		if e.Draining && (is.State == Imported || e.Withdrawn()) {
			is.State = Draining
		}
		out = append(out, is)
	}
	return out
}

func stateOf(p registry.Placement) (state, message string) {
	if p.Reason == "" {
		return Imported, ""
	}
	return printable(p.Reason), printable(p.Message)
}

// printable is a text of a member without what a terminal would interpret.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// debounce is how long a page that is watched waits for further changes.
const debounce = 100 * time.Millisecond

// Page serves Status as JSON. With ?watch it serves one line, and another one after each change,
// until the client disconnects.
func (s *Set) Page(w http.ResponseWriter, r *http.Request) {
	lines := json.NewEncoder(w)
	if !r.URL.Query().Has("watch") {
		w.Header().Set("content-type", "application/json")
		lines.SetIndent("", "  ")
		_ = lines.Encode(s.Status(nil)) // fails only if the client has disconnected
		return
	}
	w.Header().Set("content-type", "application/jsonl")
	flush := http.NewResponseController(w)
	_ = s.stream(r.Context(), func(is Status) error { return errors.Join(lines.Encode(is), flush.Flush()) }) // as above
}

// stream passes Status to send, now and after each change, until ctx ends or send fails.
func (s *Set) stream(ctx context.Context, send func(Status) error) error {
	last := ""
	for {
		ws := registry.NewWatchSet()
		is := s.Status(ws)
		if now := is.comparable(); now != last {
			last = now
			if err := send(is); err != nil {
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

// comparable is a text that is equal for equal states, times and requests aside.
func (is Status) comparable() string {
	is.InFlight, is.Members = 0, slices.Clone(is.Members)
	for i := range is.Members {
		is.Members[i].Updated, is.Members[i].Traffic = time.Time{}, nil
	}
	text, err := json.Marshal(is)
	if err != nil {
		return fmt.Sprint(err) // unreachable: these types always marshal
	}
	return string(text)
}
