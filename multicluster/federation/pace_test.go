package federation

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
)

func TestFederation_MemberKeepsNoCoreBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Federation
		handle := func(cost time.Duration, err error) func(context.Context, channel.Update) error {
			return f.paced(0, func(context.Context, channel.Update) error {
				time.Sleep(cost)
				return err
			})
		}
		lasts := func(peer string, n int, handle func(context.Context, channel.Update) error) time.Duration {
			began := time.Now()
			for range n {
				_ = handle(t.Context(), channel.Update{Peer: peer})
			}
			return time.Since(began)
		}
		if took := lasts("small", 300, handle(time.Millisecond, nil)); took != 300*time.Millisecond {
			t.Errorf("300 small updates take %s, want no wait", took)
		}
		if took := lasts("busy", 20, handle(time.Second, nil)); took < 110*time.Second || took > 121*time.Second {
			t.Errorf("20 updates of a second take %s, want a wait of 5 s after each", took)
		}
		if took := lasts("wrong", 20, handle(0, errors.New("a problem"))); took < 25*time.Second {
			t.Errorf("20 updates with problems, of which each is reported, take %s", took)
		}
		if took := lasts("other", 1, handle(time.Millisecond, nil)); took != time.Millisecond {
			t.Errorf("another member's update takes %s", took)
		}
		time.Sleep(time.Minute)
		if took := lasts("busy", 1, handle(200*time.Millisecond, nil)); took != 200*time.Millisecond {
			t.Errorf("after a minute an update of 200 ms takes %s, want no wait", took)
		}
		f.paces.keep(func(address string) bool { return address == "other" })
		if n := len(f.paces.of); n != 1 {
			t.Errorf("the debts of %d members are kept, want 1", n)
		}
	})
}
