package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

func TestPickerKey_OpensPoolsThatRoutesUseOrHaveUsedWithinTheDrainTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache.New(cache.Config{})
		a := NewAccess(AccessConfig{Cache: c, Drain: time.Minute})
		deliver := func(d translator.Delta) {
			change := &Change{Output: translator.Output{Deltas: []translator.Delta{d}}}
			a.leave(change, time.Now())
			c.Commit(cache.Batch{Gateway: d.Gateway, Upserts: d.Upserts, Removes: d.Removes})
			a.notify()
		}
		clusters := func(ids ...model.ClusterID) (out []*resource.Resource) {
			for _, id := range ids {
				out = append(out, &resource.Resource{
					Ref: resource.Ref{Type: resource.Cluster, Name: id.String()}, Version: "1",
				})
			}
			return out
		}
		expect := func(what string, want bool, gateway string, pools ...string) {
			t.Helper()
			for _, pool := range pools {
				id, _ := objectid.ParseTarget(pool)
				if got, _ := a.Allowed(gateway, id); got != want {
					t.Errorf("%s: Gateway %s may pick from %s: %t, want %t", what, gateway, pool, got, want)
				}
			}
		}
		plain, last, imported := model.PoolCluster("ns", "plain"),
			model.PoolCluster("ns", "last").As(model.LastVariant), model.ImportCluster("ns", "pool", "east")
		expect("at first", false, "ns/gw", "ns/plain")
		_, changed := a.Allowed("ns/gw", objectid.MustParseTarget("ns/plain"))
		deliver(translator.Delta{Gateway: "ns/gw",
			Upserts: clusters(plain, last, imported, model.ServiceCluster("ns", "service", 80),
				model.ParentCluster("ns", "pool", "west"),
				model.PeerCluster("ns", "pool", "south").As(model.LastVariant))})
		select {
		case <-changed:
		default:
			t.Error("a call that waits is not notified")
		}
		expect("with routes", true, "ns/gw", "ns/plain", "ns/last", "ns/pool@east", "ns/pool@west", "ns/pool@south")
		expect("with routes", false, "ns/gw", "ns/service", "ns/pool@north", "ns/pool", "ns/other", "", "nonsense",
			"ns/plain@")
		expect("without routes", false, "ns/other", "ns/plain")
		deliver(translator.Delta{Gateway: "ns/gw",
			Removes: []resource.Ref{{Type: resource.Cluster, Name: plain.String()},
				{Type: resource.Cluster, Name: imported.String()}}})
		time.Sleep(59 * time.Second)
		expect("within the drain time", true, "ns/gw", "ns/plain", "ns/pool@east", "ns/last")
		expect("within the drain time", false, "ns/other", "ns/plain")
		time.Sleep(2 * time.Second)
		expect("after the drain time", false, "ns/gw", "ns/plain", "ns/pool@east")
		expect("after the drain time", true, "ns/gw", "ns/last")
		deliver(translator.Delta{Gateway: "ns/gw", Upserts: clusters(plain)})
		expect("used again", true, "ns/gw", "ns/plain")
		if len(a.left) > 0 {
			t.Errorf("%d uses of long ago are kept, want 0", len(a.left))
		}
	})
}
