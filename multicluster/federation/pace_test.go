package federation

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/multicluster/registry"
)

func TestFederation_MemberKeepsNoCoreBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Federation
		lasts := func(peer string, n, size int, err error) time.Duration {
			handle := f.paced(followCost, func(context.Context, channel.Update) error { return err })
			update := channel.Update{Peer: peer, Items: []channel.Item{{Value: make([]byte, size)}}}
			began := time.Now()
			for range n {
				_ = f.messageReceived(peer, channel.Received{Items: 1, Bytes: size})
				_ = handle(t.Context(), update)
			}
			return time.Since(began)
		}
		if took := lasts("small", 100, 1000, nil); took != 0 {
			t.Errorf("got %s for 100 small updates, want no wait", took)
		}
		const each = 2<<20*byteCost + itemCost + followCost
		waits := func(cost time.Duration) time.Duration { return time.Duration(float64(cost-burst) / share) }
		want := waits(20 * each)
		if took := lasts("busy", 20, 2<<20, nil); (took - want).Abs() > time.Second {
			t.Errorf("got %s for 20 updates of 2 MiB, want %s", took, want)
		}
		if took := lasts("long", 1, 64<<20, nil); took != longestWait {
			t.Errorf("got %s for an update of 64 MiB, want %s", took, longestWait)
		}
		want = waits(20 * problemCost)
		if took := lasts("wrong", 20, 0, errors.New("a problem")); (took - want).Abs() > time.Second {
			t.Errorf("got %s for 20 updates with problems, each of which is reported, want %s", took, want)
		}
		if took := lasts("other", 1, 1000, nil); took != 0 {
			t.Errorf("got %s for another member's update, want no wait", took)
		}
		time.Sleep(time.Minute)
		if took := lasts("busy", 1, 2<<20, nil); took != 0 {
			t.Errorf("got %s for an update after a minute, want no wait", took)
		}
		began := time.Now()
		for range 20 { // each message is a part of an endless response
			time.Sleep(f.messageReceived("endless", channel.Received{Items: 1000, Bytes: 1 << 20}))
		}
		want = waits(20 * (1<<20*byteCost + 1000*itemCost))
		if took := time.Since(began); (took - want).Abs() > time.Second {
			t.Errorf("got %s for 20 parts of 1 MiB, want %s", took, want)
		}
		began = time.Now()
		for range 20 { // each message is a part of a response
			time.Sleep(f.messageReceived("unreadable", channel.Received{Dropped: errors.New("invalid keys")}))
		}
		if took := time.Since(began); (took - waits(20*problemCost)).Abs() > time.Second {
			t.Errorf("got %s for 20 parts with invalid keys, want %s", took, waits(20*problemCost))
		}
		f.paces.keep(func(address string) bool { return address == "other" })
		if n := len(f.paces.byAddress); n != 1 {
			t.Errorf("got the debts of %d members, want 1", n)
		}
	})
}

func TestFederation_LargeUpdateIsAppliedInSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Federation
		var got []registry.Update
		ctx, cancel := context.WithCancel(t.Context())
		f.cfg.Apply = func(list ...registry.Update) bool {
			got = append(got, list...)
			return len(got) != 1
		}
		u := registry.Update{Snapshot: true, Withdrawn: make([]objectid.Pool, 1)}
		for i := range 2*slice + 1 {
			u.Exports = append(u.Exports, registry.Export{Pool: objectid.Pool{Name: fmt.Sprint(i)}})
		}
		f.paces.spent("east", burst, time.Now())
		began := time.Now()
		if f.apply(ctx, "east", u) {
			t.Error("got an effect of all, want none of the first slice")
		}
		wait := time.Duration(2*slice*exportCost) * 100 / time.Duration(100*share)
		if took := time.Since(began); (took - wait).Abs() > time.Second {
			t.Errorf("got %s between the slices, want %s", took, wait)
		}
		if len(got) != 3 || !got[0].Partial || !got[1].Partial || got[2].Partial || len(got[1].Exports) != slice {
			t.Fatalf("got %d updates, want two slices and the rest", len(got))
		}
		if last := got[2]; len(got[0].Withdrawn) != 0 || len(last.Withdrawn) != 1 || len(last.Before) != 2*slice {
			t.Errorf("got %d withdrawn in the first slice, %d in the last one after %d exports, want 0, 1 and %d",
				len(got[0].Withdrawn), len(last.Withdrawn), len(last.Before), 2*slice)
		}
		cancel()
		if got = nil; f.apply(ctx, "east", u) || len(got) != 1 {
			t.Errorf("got %d updates after the connection has ended, want one slice", len(got))
		}
	})
}
