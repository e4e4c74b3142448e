package set

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/imports"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// countingBoard counts the reports on the ClusterSet.
type countingBoard struct{ replaced int }

func (b *countingBoard) Replace(string, ...report.Report) { b.replaced++ }
func (b *countingBoard) Set(string, ...report.Report)     {}
func (b *countingBoard) Remove(string, ...report.Ref)     {}

// reportNow makes the report on the ClusterSet if it is due, as Run does.
func (s *Set) reportNow() {
	select {
	case <-s.signals.reportable:
		s.report()
	default:
	}
}

// Lease renewals, and changes of pods, must cause no new report on the ClusterSet. 100 members
// renew their leases every 5 s.
func TestSet_UpdateThatChangesNothingReportedIsNotReported(t *testing.T) {
	board := &countingBoard{}
	s := New(Config{Store: store.New(), Board: board, Log: slog.New(slog.DiscardHandler)})
	s.adopted.spec = &v1alpha1.ClusterSet{
		Spec: v1alpha1.ClusterSetSpec{
			Members: []v1alpha1.ClusterSetMember{{Name: "east", Peer: &v1alpha1.ClusterSetPeer{}}},
		},
	}
	s.link.federation = federation.New(federation.Config{
		Certificate: func() (*tls.Certificate, error) { return nil, errors.New("none") },
	})
	s.registry.SetMembers([]string{"east"})
	s.importer.SetAllow(map[string]v1alpha1.ClusterSetAllow{"east": {Namespaces: []string{"ns", "default"}}})
	apply := func(sequence uint64, change func(u *registry.Update)) (reports int) {
		u := registry.Update{Member: "east", UID: "uid", Stamp: registry.Stamp{Epoch: 1, Sequence: sequence}}
		change(&u)
		before := board.replaced
		s.apply(u)
		s.reportNow()
		return board.replaced - before
	}
	export := func(address string) func(u *registry.Update) {
		return func(u *registry.Update) {
			u.Exports = []registry.Export{{Pool: objectid.Pool{Namespace: "default", Name: "chat"}, Stamp: u.Stamp,
				Entry: inferenceapi.ImportedCluster{
					RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000,
					Endpoints: []inferenceapi.ImportedEndpoint{{Address: address}},
				}}}
		}
	}
	for _, step := range []struct {
		what     string
		sequence uint64
		change   func(u *registry.Update)
		want     int
	}{
		{"the first update", 1, export("10.0.0.1"), 1},
		{"a renewal", 1, func(*registry.Update) {}, 0},
		{"another endpoint", 2, export("10.0.0.2"), 0},
		{"an older update", 1, func(*registry.Update) {}, 1},
		{"an update that is current again", 2, func(*registry.Update) {}, 1},
		{"an export that cannot be read", 3, func(u *registry.Update) {
			u.Unread = map[objectid.Pool]string{{Namespace: "default", Name: "code"}: "it is too large"}
		}, 1},
		{"a member that drains", 4, func(u *registry.Update) { u.Draining = true }, 1},
	} {
		if got := apply(step.sequence, step.change); got != step.want {
			t.Errorf("%s is reported %d times, want %d", step.what, got, step.want)
		}
	}
	if o, ok := store.Offers.Get(s.cfg.Store.View(), "default/"+store.OfferName("chat", "east")); !ok ||
		o.Cluster.Endpoints[0].Address != "10.0.0.2" {
		t.Errorf("the offer: got %+v, want 10.0.0.2", o)
	}
}

// A change of one export encodes only the record of this export.
func TestRecords_OneChangeEncodesOneRecord(t *testing.T) {
	f := OnDisk(t.TempDir()).Records().(*fileRecords)
	record := func(name, address string) registry.Record {
		return registry.Record{
			RecordID: registry.RecordID{Cluster: "east", Pool: objectid.Pool{Namespace: "ns", Name: name}}, UID: "uid",
			Entry: inferenceapi.ImportedCluster{Name: "east",
				Endpoints: []inferenceapi.ImportedEndpoint{{Address: address}}},
		}
	}
	line := func(name string) *byte { return &f.kept["east"][objectid.Pool{Namespace: "ns", Name: name}][0] }
	if err := f.Save(t.Context(), []registry.Record{record("a", "10.0.0.1"), record("b", "10.0.0.2")},
		nil); err != nil {
		t.Fatal(err)
	}
	a, b := line("a"), line("b")
	if err := f.Save(t.Context(), []registry.Record{record("b", "10.0.0.3")}, nil); err != nil {
		t.Fatal(err)
	}
	if line("a") != a || line("b") == b {
		t.Error("a record is encoded again without a change, or a changed one is not")
	}
}

// A member's report on an export counts neither for a later export of the pool nor for added
// members.
func TestExported_ExportHasAnotherIncarnationAfterItWasWithdrawn(t *testing.T) {
	s := New(Config{Store: store.New(), Board: &countingBoard{}, Log: slog.New(slog.DiscardHandler)})
	give := func(before *export.Export, to ...string) *export.Export {
		e := &export.Export{To: to}
		s.incarnate(before, e)
		return e
	}
	first := give(nil, "east")
	if first.Incarnation != 0 {
		t.Errorf("of the first decision: %d, want 0", first.Incarnation)
	}
	close(s.signals.decided)
	second := give(nil, "east", "west")
	fewer, wider := give(second, "east"), give(second)
	if second.Incarnation == 0 || fewer.Incarnation != second.Incarnation || wider.Incarnation == second.Incarnation {
		t.Errorf("incarnations: got %d, to fewer members %d, to all %d, want the first two equal, other than 0, and "+
			"a new one", second.Incarnation, fewer.Incarnation, wider.Incarnation)
	}
	if same := give(wider, "east"); same.Incarnation != wider.Incarnation {
		t.Errorf("all members before: got %d, now one: %d, want the same", wider.Incarnation, same.Incarnation)
	}
}

// Exported is True only after translation has accepted an export.
func TestDue_ExportersLearnWhatIsTranslated(t *testing.T) {
	chat, code := objectid.Pool{Namespace: "default", Name: "chat"}, objectid.Pool{Namespace: "default", Name: "code"}
	at := func(revision uint64, reason string, pools ...objectid.Pool) imports.Assembled {
		a := imports.Assembled{Pools: pools, Revision: revision}
		for _, p := range pools {
			a.Placed = append(a.Placed, registry.Placement{Member: "east", Pool: p, Reason: reason})
		}
		return a
	}
	var d due
	check := func(what string, got, want imports.Assembled) {
		t.Helper()
		if slices.SortFunc(got.Pools, objectid.Pool.Compare); !slices.Equal(got.Pools, want.Pools) ||
			len(got.Placed) != len(want.Placed) {
			t.Fatalf("%s: %+v, want %+v", what, got, want)
		}
		for _, w := range want.Placed {
			if !slices.Contains(got.Placed, w) {
				t.Errorf("%s: %+v, want %+v", what, got.Placed, want.Placed)
			}
		}
	}
	none := imports.Assembled{}
	check("not translated yet", d.ready(at(5, "", chat, code)), none)
	check("an older revision is", d.translated(4), none)
	check("judged, while a newer revision is in the store", d.ready(at(6, "NotSupported", chat)), none)
	check("the other pool", d.translated(5), at(5, "", code))
	check("that pool", d.translated(6), at(6, "NotSupported", chat))
	check("nothing twice", d.translated(7), none)
	check("nothing new in the store", d.ready(at(7, "", chat)), at(7, "", chat))
	check("withdrawn", d.ready(imports.Assembled{Pools: []objectid.Pool{chat}, Revision: 8}), none)
	check("withdrawn, and translated", d.translated(8), imports.Assembled{Pools: []objectid.Pool{chat}})
}

// If a member's updates have no effect, its earlier exports stay in use. The metric must show the
// member as denied, because nothing else can raise an alert.
func TestMetrics_MemberWithoutEffectIsDenied(t *testing.T) {
	s := New(Config{Store: store.New(), Board: &countingBoard{}, Log: slog.New(slog.DiscardHandler)})
	s.adopted.name = "here"
	s.adopted.spec = &v1alpha1.ClusterSet{
		Spec: v1alpha1.ClusterSetSpec{
			Members: []v1alpha1.ClusterSetMember{{Name: "east", Peer: &v1alpha1.ClusterSetPeer{}}},
		},
	}
	s.link.federation = federation.New(federation.Config{
		Certificate: func() (*tls.Certificate, error) { return nil, errors.New("none") },
	})
	s.registry.SetMembers([]string{"east"})
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(s)
	denied := func() (value float64) {
		t.Helper()
		families, err := metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "penstock_clusterset_member_denied" {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatal("there is no such metric")
		return 0
	}
	for _, step := range []struct {
		what string
		do   func()
		want float64
	}{
		{"the first update", func() { s.apply(update(2)) }, 0},
		{"an older update", func() { s.apply(update(1)) }, 1},
		{"a later update", func() { s.apply(update(3)) }, 0},
		{"a certificate that is not valid", func() { s.denied("east", "its certificate is not valid") }, 1},
		{"a renewal", func() { s.apply(update(3)) }, 0},
		{"a message above its limits", func() { s.problem("east", "it has too many items") }, 1},
	} {
		step.do()
		if got := denied(); got != step.want {
			t.Errorf("after %s the metric is %v, want %v", step.what, got, step.want)
		}
	}
}

func update(sequence uint64) registry.Update {
	return registry.Update{Member: "east", UID: "uid", Stamp: registry.Stamp{Epoch: 1, Sequence: sequence}}
}
