package set

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/statefile"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/deepcopy"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// sharedRecords is a Records that drops endpoints, as PoolExports do.
type sharedRecords struct{ Records }

func (s sharedRecords) Save(ctx context.Context, changed []registry.Record, gone []registry.RecordID) error {
	list := make([]registry.Record, len(changed))
	for i, r := range changed {
		r.Entry = *deepcopy.Of(&r.Entry)
		r.Entry.Endpoints = nil
		list[i] = r
	}
	return s.Records.Save(ctx, list, gone)
}

// A restarted process on Kubernetes reads the endpoints of members' exports from its own disk,
// because no API server stores them. Otherwise, its Envoys would have imports without endpoints
// until the members publish again. A process that does not lead does the same.
func TestRecords_RestartedProcessHasTheEndpointsThatNoAPIServerHas(t *testing.T) {
	shared, local := t.TempDir(), t.TempDir()
	pool := objectid.Pool{Namespace: "default", Name: "chat"}
	start := func() *Set {
		s := New(Config{Store: store.New(), Board: &countingBoard{}, Records: sharedRecords{OnDisk(shared).Records()},
			Local: LocalRecords(local), Log: slog.New(slog.DiscardHandler)})
		join(s, v1alpha1.ClusterSetAllow{Namespaces: []string{pool.Namespace}})
		return s
	}
	save := func(s *Set, leads bool, sequence uint64, mode string, endpoints ...string) {
		t.Helper()
		entry := inferenceapi.ImportedCluster{RoutingMode: inferenceapi.RoutingMode(mode), TargetPortNumber: 8000}
		for _, a := range endpoints {
			entry.Endpoints = append(entry.Endpoints, inferenceapi.ImportedEndpoint{Address: a})
		}
		at := registry.Stamp{Epoch: 1, Sequence: sequence}
		exports := []registry.Export{{Pool: pool, Stamp: at, Entry: entry}}
		s.apply(registry.Update{Member: "east", UID: "uid", Stamp: at, Snapshot: true, Exports: exports})
		var outcome, own statefile.Outcome
		if err := s.save(t.Context(), saveTimeout, leads, &outcome, &own); err != nil {
			t.Fatal(err)
		}
	}
	loaded := func(want string) {
		t.Helper()
		var got []string
		for _, r := range start().load(t.Context()) {
			if r.Pool == pool {
				got = append(got, string(r.Entry.RoutingMode), fmt.Sprint(r.Stamp.Sequence))
				for _, e := range r.Entry.Endpoints {
					got = append(got, e.Address)
				}
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("a process that starts has %q, want %q", text, want)
		}
	}
	s := start()
	save(s, true, 1, "EndpointMode", "10.0.0.1", "10.0.0.2")
	loaded("EndpointMode 1 10.0.0.1 10.0.0.2")
	save(s, false, 2, "EndpointMode", "10.0.0.3") // the leader has not saved this version yet
	loaded("EndpointMode 1 10.0.0.3")
	save(s, true, 3, "ParentMode")
	loaded("ParentMode 3")
	save(s, true, 4, "EndpointMode", "10.0.0.4")
	path := filepath.Join(local, "cluster", "records", "east.jsonl")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(raw), `"uid":"uid"`, `"uid":"other"`)),
		0o600); err != nil {
		t.Fatal(err)
	}
	loaded("EndpointMode 4") // the UID differs, as for a new cluster of the same name
	if err := os.RemoveAll(local); err != nil {
		t.Fatal(err)
	}
	loaded("EndpointMode 4")
}

// join makes east a member of a Set that does not run.
func join(s *Set, allow v1alpha1.ClusterSetAllow) {
	if s.link.federation == nil {
		none := func() (*tls.Certificate, error) { return nil, errors.New("none") }
		s.link.federation = federation.New(federation.Config{Certificate: none})
	}
	s.registry.SetMembers([]string{"east"})
	s.assemble(s.importer.SetAllow(map[string]v1alpha1.ClusterSetAllow{"east": allow}))
}

// A member may publish any number of exports, so exports that this cluster does not import leave no
// record.
func TestRecords_ExportThatIsNotImportedIsNotKept(t *testing.T) {
	state := t.TempDir()
	s := New(Config{
		Store: store.New(), Board: &countingBoard{}, Records: OnDisk(state).Records(), Local: LocalRecords(t.TempDir()),
		Log: slog.New(slog.DiscardHandler),
	})
	kept := func(want string) {
		t.Helper()
		var outcome, own statefile.Outcome
		if err := s.save(t.Context(), saveTimeout, true, &outcome, &own); err != nil {
			t.Fatal(err)
		}
		for _, r := range []Records{OnDisk(state).Records(), s.cfg.Local} {
			list, err := r.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, r := range list {
				if r.Pool != (objectid.Pool{}) {
					names = append(names, r.Pool.Namespace+"/"+r.Pool.Name)
				}
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("records of %q, want %q", got, want)
			}
		}
	}
	join(s, v1alpha1.ClusterSetAllow{Namespaces: []string{"team"}, Pools: []string{"other/b"}, Exports: new(int32(3))})
	at := registry.Stamp{Epoch: 1, Sequence: 1}
	u := registry.Update{Member: "east", UID: "uid", Stamp: at, Snapshot: true}
	for _, namespace := range []string{"default", "other", "team"} {
		for _, name := range []string{"a", "b", "c"} {
			entry := inferenceapi.ImportedCluster{RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000}
			pool := objectid.Pool{Namespace: namespace, Name: name}
			u.Exports = append(u.Exports, registry.Export{Pool: pool, Stamp: at, Entry: entry})
		}
	}
	s.apply(u)
	kept("other/b team/a team/b")
	join(s, v1alpha1.ClusterSetAllow{Pools: []string{"other/b"}})
	kept("other/b")
	join(s, v1alpha1.ClusterSetAllow{})
	kept("")
	join(s, v1alpha1.ClusterSetAllow{Namespaces: []string{"other"}})
	kept("other/a other/b other/c")
}

// On Kubernetes, an export's record is in the export's namespace, which may be created after the
// export arrives.
func TestRecords_ExportIsKeptOnceItsNamespaceExists(t *testing.T) {
	st := store.New()
	s := New(Config{Store: st, Board: &countingBoard{}, Log: slog.New(slog.DiscardHandler)})
	s.link.federation = federation.New(federation.Config{
		Certificate: func() (*tls.Certificate, error) { return nil, errors.New("none") },
	})
	s.registry.SetMembers([]string{"east"})
	at := registry.Stamp{Epoch: 1, Sequence: 1}
	export := func(namespace string) registry.Export {
		return registry.Export{Pool: objectid.Pool{Namespace: namespace, Name: "chat"}, Stamp: at,
			Entry: inferenceapi.ImportedCluster{RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000}}
	}
	s.registry.Apply(registry.Update{Member: "east", UID: "uid", Stamp: at, Snapshot: true,
		Exports: []registry.Export{export("other"), export("team")}})
	if changed, _ := s.registry.TakeUnsaved(); len(changed) != 3 {
		t.Fatalf("%d records, want the records of the member and its exports", len(changed))
	}
	s.Follow(t.Context(),
		Change{View: st.View(), Objects: []store.Change{{Table: store.Namespaces.Kind(), ID: "team"}}})
	if changed, _ := s.registry.TakeUnsaved(); len(changed) != 1 || changed[0].Pool != export("team").Pool {
		t.Errorf("saved again: got %+v, want the export of team alone", changed)
	}
}

// Local records in a pod share a small volume. Only records beyond the limit are dropped.
func TestRecords_LocalOnesAreBounded(t *testing.T) {
	state := t.TempDir()
	r := newFileRecords(statefile.Machine{}, state, 2000)
	var list []registry.Record
	for _, cluster := range []string{"a", "b"} {
		for n := range 10 {
			list = append(list,
				registry.Record{
					RecordID: registry.RecordID{Cluster: cluster,
						Pool: objectid.Pool{Namespace: "ns", Name: fmt.Sprintf("pool-%d", n)}}, UID: "uid",
				})
		}
	}
	size := func() (total int64) {
		for _, cluster := range []string{"a", "b"} {
			if info, err := os.Stat(filepath.Join(state, "cluster", "records", cluster+".jsonl")); err == nil {
				total += info.Size()
			}
		}
		return total
	}
	if err := r.Save(t.Context(), list, nil); err != nil {
		t.Fatal(err)
	}
	if n := size(); n > 2000 || n < 1800 {
		t.Errorf("the files have %d bytes, want at most 2000 and at least 1800", n)
	}
	var gone []registry.RecordID
	for _, record := range list[:10] {
		gone = append(gone, record.RecordID)
	}
	if err := r.Save(t.Context(), list[10:], gone); err != nil {
		t.Fatal(err)
	}
	got, err := newFileRecords(statefile.Machine{}, state, 2000).Load(t.Context())
	if err != nil || len(got) != 10 {
		t.Errorf("%d records of the other cluster: %v, want 10", len(got), err)
	}
}

// Two processes of a cluster receive the same exports at different times. A name must have the same
// meaning in both, so the process that does not lead adopts the leader's times (Registry.Agree).
func TestRecords_ProcessThatDoesNotLeadReceivedExportsWhenTheLeaderDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := t.TempDir()
		start := func(leads bool) *Set {
			s := New(Config{Store: store.New(), Board: &countingBoard{},
				Records: sharedRecords{OnDisk(shared).Records()},
				Leading: func() bool { return leads }, Log: slog.New(slog.DiscardHandler)})
			s.link.federation = federation.New(federation.Config{
				Certificate: func() (*tls.Certificate, error) { return nil, errors.New("none") },
			})
			s.registry.SetMembers([]string{"east", "west"})
			s.importer.SetAllow(map[string]v1alpha1.ClusterSetAllow{
				"east": {Namespaces: []string{"default"}}, "west": {Pools: []string{"default/chat-east"}},
			})
			return s
		}
		leader, other := start(true), start(false)
		receive := func(s *Set, member, pool string) {
			at := registry.Stamp{Epoch: 1, Sequence: 1}
			s.apply(registry.Update{Member: member, UID: member, Stamp: at, Snapshot: true, Exports: []registry.Export{
				{Pool: objectid.Pool{Namespace: "default", Name: pool}, Stamp: at,
					Entry: inferenceapi.ImportedCluster{
						RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000,
					}},
			}})
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{}, 2)
		for _, s := range []*Set{leader, other} {
			go func() { _ = s.keep(ctx); done <- struct{}{} }()
		}
		receive(leader, "east", "chat")
		receive(other, "west", "chat-east")
		time.Sleep(time.Millisecond)
		receive(leader, "west", "chat-east")
		receive(other, "east", "chat")
		time.Sleep(time.Minute)
		for _, name := range []string{"default/chat.east", "default/chat-east.west"} {
			want, _ := store.Offers.Get(leader.cfg.Store.View(), name)
			got, ok := store.Offers.Get(other.cfg.Store.View(), name)
			if want == nil || want.Since == 0 || !ok || got.Since != want.Since {
				t.Errorf("%s: %+v, want as the leader %+v", name, got, want)
			}
		}
		cancel()
		<-done
		<-done
	})
}
