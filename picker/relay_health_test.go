package picker

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRelay_FailureIsReportedOnceAndResolved(t *testing.T) {
	t.Parallel()
	var reported []RelayFailure
	p, err := New(
		Config{Troubles: relayTroubles{failed: func(_ string, f RelayFailure) { reported = append(reported, f) }}})
	if err != nil {
		t.Fatal(err)
	}
	describe := func(cidr string) Pool {
		return Pool{
			ID: poolID("ns/far"),
			Relay: &Relay{Pickers: at(netip.MustParseAddrPort("192.0.2.1:9002")),
				Within: [][]netip.Prefix{{netip.MustParsePrefix(cidr)}}},
		}
	}
	update := func(pool Pool) {
		t.Helper()
		if err := p.Update(pool); err != nil {
			t.Fatal(err)
		}
	}
	update(describe("10.0.0.0/8"))
	first, at := p.pool("ns/far"), time.Now()
	down, odd, fine := RelayFailure{NoAnswer: "connection refused"}, RelayFailure{OutOfRange: "127.0.0.1:8000"},
		RelayFailure{}
	for _, s := range []struct {
		after time.Duration
		RelayFailure
	}{
		{0, fine}, {0, down}, {0, down}, {0, fine},
		// Every second answer is out of range.
		{0, odd}, {0, RelayFailure{OutOfRange: "127.0.0.2:8000"}}, {time.Second, fine}, {2 * time.Second, odd},
		{3 * time.Second, fine},
		{2*time.Second + outOfRangeHold, fine}, {time.Minute, odd},
	} {
		p.reportRelay(first, s.RelayFailure, at.Add(s.after))
	}
	update(describe("10.0.0.0/8")) // an equal configuration
	update(describe("127.0.0.0/8"))
	p.reportRelay(first, odd, at.Add(time.Minute)) // from a call of the replaced pool
	p.reportRelay(p.pool("ns/far"), down, at.Add(time.Minute))
	p.Remove(poolID("ns/far"))
	if diff := cmp.Diff([]RelayFailure{down, fine, odd, fine, odd, fine, down, fine}, reported); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}
