package cache_test

import (
	"fmt"
	"slices"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

const gateway = "default/web"

func assignment(t testing.TB, name string, weight int) *resource.Resource {
	t.Helper()
	r, err := resource.New(resource.Endpoints, name, &endpointv3.ClusterLoadAssignment{
		ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{Priority: uint32(weight)}},
	}, []resource.Ref{{Type: resource.Listener, Name: "hop"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func commit(c *cache.Cache, upserts []*resource.Resource, removes ...resource.Ref) {
	c.Commit(cache.Batch{Gateway: gateway, Upserts: upserts, Removes: removes})
}

func TestCursor_MissedChangesCollapse(t *testing.T) {
	c := cache.New(cache.Config{})
	first := assignment(t, "a", 0)
	commit(c, []*resource.Resource{first, assignment(t, "gone", 0)})
	cur := c.Open(gateway, "")
	defer cur.Close()
	last := assignment(t, "a", 3)
	commit(c, []*resource.Resource{assignment(t, "a", 1)})
	commit(c, nil, resource.Ref{Type: resource.Endpoints, Name: "a"})
	commit(c, []*resource.Resource{last}, resource.Ref{Type: resource.Endpoints, Name: "gone"})
	d := cur.Pull()
	if d.Reset || len(d.Changes) != 2 {
		t.Fatalf("got %+v, want 2 changes without a reset", d)
	}
	byName := map[string]cache.Change{}
	for _, ch := range d.Changes {
		byName[ch.Slot.Name] = ch
	}
	if a := byName["a"]; a.Prev.Version != first.Version || a.Entry.Version != last.Version {
		t.Errorf("a: %+v, want Prev.Version %v and Entry.Version %v", a, first.Version, last.Version)
	}
	if g := byName["gone"]; g.Entry != nil || g.Prev == nil {
		t.Errorf("gone: got %+v, want its former version and no entry", g)
	}
	if again := cur.Pull(); len(again.Changes) > 0 {
		t.Errorf("changes are returned twice: got %+v, want none", again)
	}
}

func TestCursor_ResetReturnsAllChangesBehindTheLog(t *testing.T) {
	c := cache.New(cache.Config{LogRecords: 100})
	commit(c, []*resource.Resource{assignment(t, "untouched", 0)})
	behind := c.Open(gateway, "")
	defer behind.Close()
	for i := range 1000 {
		commit(c, []*resource.Resource{assignment(t, fmt.Sprint("n", i%300), i)})
	}
	d := behind.Pull()
	if !d.Reset || len(d.Changes) != 300 {
		t.Errorf("reset %v with %d changes, want a reset with 300", d.Reset, len(d.Changes))
	}
}

func TestCommit_EqualResourceIsNotAChange(t *testing.T) {
	c := cache.New(cache.Config{})
	commit(c, []*resource.Resource{assignment(t, "a", 0)})
	cur := c.Open(gateway, "")
	defer cur.Close()
	commit(c, []*resource.Resource{assignment(t, "a", 0)}, resource.Ref{Type: resource.Endpoints, Name: "never"})
	if d := cur.Pull(); len(d.Changes) > 0 {
		t.Errorf("got %+v, want no change", d)
	}
}

func TestEntry_EncodesCommittedResource(t *testing.T) {
	c := cache.New(cache.Config{})
	want := assignment(t, "a", 7)
	empty := resource.FromParts(resource.Endpoints, "empty", resource.NewPart(nil, nil, nil))
	divided := resource.FromParts(resource.Endpoints, "parts", resource.NewPart([]byte("ab"), nil, nil),
		resource.NewPart([]byte("c"), nil, nil))
	commit(c, []*resource.Resource{want, empty, divided})
	cur := c.Open(gateway, "")
	var delta, state []byte
	slots := cur.Each(resource.Endpoints)
	for _, s := range slots {
		e := s.Current()
		delta, state = append(delta, e.Delta()...), append(state, e.StateOfTheWorld()...)
		for _, p := range e.Parts {
			delta, state = append(delta, p.Body...), append(state, p.Body...)
		}
	}
	cur.Close()
	var d discoveryv3.DeltaDiscoveryResponse
	var s discoveryv3.DiscoveryResponse
	if err := proto.Unmarshal(delta, &d); err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(state, &s); err != nil {
		t.Fatal(err)
	}
	if len(d.GetResources()) != 3 || len(s.GetResources()) != 3 {
		t.Fatalf("got %v\nand %v\nwant 3 resources in each", &d, &s)
	}
	for i, r := range []*resource.Resource{want, empty, divided} {
		got := d.GetResources()[i]
		if got.GetName() != r.Name || got.GetVersion() != r.Version ||
			!proto.Equal(got.GetResource(), s.GetResources()[i]) ||
			string(got.GetResource().GetValue()) != string(r.Body()) || got.GetResource().GetTypeUrl() != r.Type.URL() {
			t.Errorf("got %v, want resource %s of version %s, as in the state of the world", got, r.Name, r.Version)
		}
	}
}

func TestSlot_RemovedNameIsReaped(t *testing.T) {
	c := cache.New(cache.Config{})
	cur := c.Open(gateway, "")
	for i := range 500 {
		r := assignment(t, fmt.Sprint("n", i), 0)
		commit(c, []*resource.Resource{r})
		cur.Pull()
		commit(c, nil, r.Ref)
		cur.Pull()
	}
	slot := cur.Acquire(resource.Endpoints, "n0")
	if slot.ID < 500 {
		t.Errorf("a removed name still has its slot, %d, want at least 500", slot.ID)
	}
	again := cur.Acquire(resource.Endpoints, "n0")
	if again != slot {
		t.Error("a name in use was reaped")
	}
	cur.Close(slices.Values([]uint32{slot.ID, again.ID}))
}

func TestProfile_UnknownReadsDefault(t *testing.T) {
	c := cache.New(cache.Config{})
	c.SetReady()
	commit(c, []*resource.Resource{assignment(t, "a", 0)})
	c.Commit(cache.Batch{Gateway: gateway, Profile: "v2", Upserts: []*resource.Resource{assignment(t, "b", 0)}})
	for profile, want := range map[string]string{"": "a", "v1": "a", "v2": "b"} {
		cur := c.Open(gateway, profile)
		select {
		case <-cur.Ready():
		default:
			t.Errorf("profile %q is not ready", profile)
		}
		if s := cur.Each(resource.Endpoints); len(s) != 1 || s[0].Name != want {
			t.Errorf("profile %q reads %v, want %s alone", profile, s, want)
		}
		cur.Close()
	}
}

func TestSlot_NamedWhileReferenced(t *testing.T) {
	c := cache.New(cache.Config{})
	cur := c.Open(gateway, "")
	hop := cur.Acquire(resource.Listener, "hop")
	a, b := assignment(t, "a", 0), assignment(t, "b", 0)
	commit(c, []*resource.Resource{a, b})
	commit(c, []*resource.Resource{assignment(t, "a", 1)}, b.Ref)
	if !hop.Named() {
		t.Error("not named, although a names it")
	}
	commit(c, nil, a.Ref)
	if hop.Named() {
		t.Error("named, although nothing names it")
	}
	cur.Close(slices.Values([]uint32{hop.ID}))
}

func TestLog_SharedPartsDoNotCount(t *testing.T) {
	c := cache.New(cache.Config{LogBytes: 1 << 20})
	large := resource.NewPart(make([]byte, 512<<10), nil, nil)
	version := func(i int) *resource.Resource {
		return resource.FromParts(resource.Endpoints, "large", large, resource.NewPart(fmt.Append(nil, i), nil, nil))
	}
	commit(c, []*resource.Resource{version(0)})
	slow := c.Open(gateway, "")
	defer slow.Close()
	for i := range 200 {
		commit(c, []*resource.Resource{version(i + 1)})
	}
	if d := slow.Pull(); d.Reset || len(d.Changes) != 1 {
		t.Errorf("reset %v with %d changes, want one without a reset: a slow proxy has to compare everything",
			d.Reset, len(d.Changes))
	}
}
