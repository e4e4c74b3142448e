package picker

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTroubleWithARemotePickerIsToldOnceAndTakenBack(t *testing.T) {
	t.Parallel()
	var told []RelayTrouble
	p, err := New(Config{Trouble: func(_ string, trouble RelayTrouble) { told = append(told, trouble) }})
	if err != nil {
		t.Fatal(err)
	}
	describe := func(cidr string) Pool {
		return Pool{Name: "far", Relay: &Relay{Pickers: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:9002")}, CIDRs: []netip.Prefix{netip.MustParsePrefix(cidr)}}}
	}
	update := func(pool Pool) {
		t.Helper()
		if err := p.Update(pool); err != nil {
			t.Fatal(err)
		}
	}
	update(describe("10.0.0.0/8"))
	first, at := p.pool("far"), time.Now()
	down, odd, fine := RelayTrouble{Unanswered: "connection refused"}, RelayTrouble{Refused: "127.0.0.1:8000"}, RelayTrouble{}
	for _, s := range []struct {
		after time.Duration
		RelayTrouble
	}{
		{0, fine}, {0, down}, {0, down}, {0, fine},
		{0, odd}, {0, RelayTrouble{Refused: "127.0.0.2:8000"}}, {time.Second, fine}, {2 * time.Second, odd}, {3 * time.Second, fine}, // every second one
		{2*time.Second + refusedCalm, fine}, {time.Minute, odd},
	} {
		p.stands(first, s.RelayTrouble, at.Add(s.after))
	}
	update(describe("10.0.0.0/8")) // the same
	update(describe("127.0.0.0/8"))
	p.stands(first, odd, at.Add(time.Minute)) // of before the change
	p.stands(p.pool("far"), down, at.Add(time.Minute))
	p.Remove("far")
	if diff := cmp.Diff([]RelayTrouble{down, fine, odd, fine, odd, fine, down, fine}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
