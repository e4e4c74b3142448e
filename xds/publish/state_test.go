package publish_test

import (
	"slices"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/publish"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest"
)

var instant = time.Unix(1000, 0)

// stateOf starts a state-of-the-world stream of clusters. version is from an earlier stream.
func stateOf(t *testing.T, store *cache.Cache, version string) (*publish.Stream, []*publish.Response) {
	t.Helper()
	s := publish.New(store.Open(xdstest.Gateway, ""), publish.Config{StateOfTheWorld: true})
	t.Cleanup(s.Close)
	s.HandleState(publish.StateRequest{Type: resource.Cluster, Version: version}, instant)
	return s, s.Flush(instant)
}

func TestStateOfTheWorld_ResponseCarriesAllClusters(t *testing.T) {
	store := cache.New(cache.Config{})
	commit := func(upserts []*resource.Resource, removes ...resource.Ref) {
		store.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: upserts, Removes: removes})
	}
	commit([]*resource.Resource{xdstest.Cluster(t, "a", 0), xdstest.Cluster(t, "b", 0)})
	s, sent := stateOf(t, store, "")
	for step, want := range []string{"cluster +a,+b", "cluster +a,+b,+c", "cluster +b,+c"} {
		if len(sent) != 1 || describe(sent[0]) != want {
			t.Fatalf("step %d: sent %v, want %s", step, sent, want)
		}
		s.HandleState(publish.StateRequest{Type: resource.Cluster, Version: sent[0].Version, Nonce: sent[0].Nonce},
			instant)
		switch step {
		case 0:
			commit([]*resource.Resource{xdstest.Cluster(t, "c", 0)})
		case 1:
			commit(nil, resource.Ref{Type: resource.Cluster, Name: "a"})
		}
		sent = s.Flush(instant)
	}
}

func TestStateOfTheWorld_ResumptionSendsOnlyChanges(t *testing.T) {
	clusters := []*resource.Resource{xdstest.Cluster(t, "a", 0), xdstest.Cluster(t, "b", 0)}
	replica := func(upserts ...*resource.Resource) *cache.Cache {
		store := cache.New(cache.Config{})
		store.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: upserts})
		return store
	}
	_, sent := stateOf(t, replica(clusters...), "")
	version := sent[0].Version
	slices.Reverse(clusters)
	if _, sent := stateOf(t, replica(clusters...), version); len(sent) != 0 {
		t.Errorf("another replica sends %s, want nothing", describe(sent[0]))
	}
	if _, sent := stateOf(t, replica(clusters[0]), version); len(sent) != 1 || describe(sent[0]) != "cluster +b" {
		t.Errorf("after a removal it sends %v, want cluster +b", sent)
	}
}
