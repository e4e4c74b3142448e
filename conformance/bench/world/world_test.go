package world

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/xds/resource"
)

var small = []Size{
	{Listeners: 3, Hosts: 230, Backends: 110, Endpoints: 2, Port: 8443},
	{Listeners: 0, Hosts: 20, Backends: 5, Endpoints: 2, Port: 8080},
}

// translate returns the names of a store's resources, and fails for each finding.
func translate(t *testing.T, s *store.Store) (names []string) {
	t.Helper()
	tr := translator.New(translator.Config{Controller: "penstock.dev/gateway-controller", AnyClass: true})
	out := tr.Update(s.View(), store.Everything(s.View()))
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	for _, r := range out.Reports {
		for _, f := range r.Findings {
			t.Errorf("%s: got the finding %s, want none", r.Owner.Name, f.Problem)
		}
	}
	for _, r := range tr.Resources(Gateway) {
		names = append(names, r.String()+" "+r.Version)
	}
	return names
}

func TestBenchWorld_FilesAndObjectsMatch(t *testing.T) {
	for _, size := range small {
		w, err := New(size)
		if err != nil {
			t.Fatal(err)
		}
		objects := store.New()
		if _, err := objects.Apply(append(w.Ops(), store.AddressPolicies.Put(addresses.Unrestricted()))...); err !=
			nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := w.WriteFiles(dir); err != nil {
			t.Fatal(err)
		}
		files := store.New()
		if _, err := files.Apply(store.AddressPolicies.Put(addresses.Unrestricted())); err != nil {
			t.Fatal(err)
		}
		reader, err := file.New(file.Config{Paths: []string{dir}, Store: files})
		if err != nil {
			t.Fatal(err)
		}
		if err := reader.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := translate(t, objects)
		if diff := cmp.Diff(want, translate(t, files)); diff != "" {
			t.Errorf("%+v: want the same Envoy resources (-objects +files):\n%s", size, diff)
		}
		if len(want) < size.Backends*2 {
			t.Errorf("%+v: only %d resources, want at least %d", size, len(want), size.Backends*2)
		}
	}
}

func TestHTTPRoute_ChangeAffectsOneRouteConfiguration(t *testing.T) {
	w, err := New(small[0])
	if err != nil {
		t.Fatal(err)
	}
	s := store.New()
	tr := translator.New(translator.Config{Controller: "penstock.dev/gateway-controller", AnyClass: true})
	rev, err := s.Apply(append(w.Ops(), store.AddressPolicies.Put(addresses.Unrestricted()))...)
	if err != nil {
		t.Fatal(err)
	}
	tr.Update(s.View(), rev.Changes)
	if rev, err = s.Apply(store.HTTPRoutes.Put(w.Route(7, 1))); err != nil {
		t.Fatal(err)
	}
	out := tr.Update(s.View(), rev.Changes)
	if len(out.Deltas) != 1 || len(out.Deltas[0].Upserts) != 1 || len(out.Deltas[0].Removes) != 0 {
		t.Fatalf("one route changed: got %+v, want one resource that is sent, none removed", out.Deltas)
	}
	want := resource.Ref{Type: resource.RouteConfiguration, Name: w.Routes(7)}
	if got := out.Deltas[0].Upserts[0].Ref; got != want {
		t.Errorf("%s changed, want %s", got, want)
	}
}

func TestEndpointSlice_EveryTurnIsAChange(t *testing.T) {
	w, err := New(small[0])
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for turn := range 50 {
		_, slice := w.Service(4, turn)
		a := slice.Endpoints[0].Addresses[0]
		if slices.Contains(seen, a) {
			t.Fatalf("turn %d gives %s again, want another address", turn, a)
		}
		seen = append(seen, a)
	}
}
