package hostname_test

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/hostname"
	"github.com/penstock-project/penstock/discovery/store"
)

// buggy is a Lookup that panics in the first lookups of one name.
type buggy struct{ left atomic.Int32 }

func (b *buggy) LookupNetIP(_ context.Context, _, name string) ([]netip.Addr, error) {
	if name == "bug.example" && b.left.Add(-1) >= 0 {
		panic("a bug")
	}
	return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
}

func TestPanic_OfALookupLeavesOtherNamesTheirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lookup := &buggy{}
		lookup.left.Store(3)
		var reported atomic.Int32
		s := store.New()
		r, err := hostname.New(hostname.Config{Store: s, Lookup: lookup,
			OnPanic: func(name string, _ any, stack []byte) {
				if name == "bug.example" && len(stack) > 0 {
					reported.Add(1)
				}
			}})
		if err != nil {
			t.Fatal(err)
		}
		run(t, r)
		want(t, r, []string{"bug.example", "good.example"}, nil)
		time.Sleep(1500 * time.Millisecond) // failures are stored each second
		if h := host(s, "good.example"); h == nil || len(h.Addresses) != 1 {
			t.Errorf("the other name is %+v, want one address", h)
		}
		if h := host(s, "bug.example"); h == nil || h.Error == "" || len(h.Addresses) != 0 {
			t.Errorf("the name whose lookup panicked is %+v, want an error and no address", h)
		}
		time.Sleep(time.Minute)
		if h := host(s, "bug.example"); h == nil || h.Error != "" || len(h.Addresses) != 1 || reported.Load() != 3 {
			t.Errorf("after %d panics the name is %+v, want one address after 3", reported.Load(), h)
		}
	})
}
