package gatewayapi_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
)

func datagramShare(backend int, weight uint32, endpoints int) (s gatewayapi.DatagramShare) {
	s.Weight = weight
	for i := range endpoints {
		s.Endpoints = append(s.Endpoints,
			netip.MustParseAddrPort(fmt.Sprintf("10.%d.%d.%d:53", backend, i/250, i%250+1)))
	}
	return s
}

// sums adds up the endpoints' weights by the second byte of the address, which is the backend's
// number. 255 stands for dropped datagrams.
func sums(t *testing.T, endpoints []model.Endpoint) (by map[byte]uint64, all uint64) {
	t.Helper()
	by = map[byte]uint64{}
	for _, e := range endpoints {
		if e.Weight == 0 {
			t.Errorf("%s has no weight, want at least 1", e.Address)
		}
		by[e.Address.Addr().As4()[1]] += uint64(e.Weight)
		all += uint64(e.Weight)
	}
	return by, all
}

func TestUDPRoute_BackendsGetTheirSharesWhateverNumberOfEndpointsTheyHave(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var shares []gatewayapi.DatagramShare
		var total, dropped uint64
		usable := false
		for i := range 1 + r.IntN(16) {
			n := []int{0, 1, 2, 3, 7, 300}[r.IntN(6)]
			s := datagramShare(i+1, []uint32{0, 1, 2, 90, 1_000_000}[r.IntN(5)], n)
			shares, total = append(shares, s), total+uint64(s.Weight)
			if n == 0 {
				dropped += uint64(s.Weight)
			}
			usable = usable || n > 0 && s.Weight > 0
		}
		endpoints := gatewayapi.DatagramEndpoints(shares)
		if !usable {
			if len(endpoints) > 0 {
				t.Fatalf("without a usable endpoint there are %v, want none", endpoints)
			}
			continue
		}
		by, all := sums(t, endpoints)
		if all > 1<<31+uint64(len(endpoints)) {
			t.Fatalf("the weights add up to %d, want at most %d", all, 1<<31+uint64(len(endpoints)))
		}
		near := func(what string, got, weight uint64) {
			t.Helper()
			want := float64(weight) / float64(total)
			if off := float64(got)/float64(all) - want; off > 1e-5 || off < -1e-5 {
				t.Fatalf("%s gets %g of the datagrams, want %g", what, float64(got)/float64(all), want)
			}
		}
		for i, s := range shares {
			if len(s.Endpoints) > 0 {
				near(fmt.Sprint("backend ", i), by[byte(i+1)], uint64(s.Weight))
			}
		}
		near("nothing", by[255], dropped)
	}
}

func TestUDPRoute_EndpointOfTwoBackendsHasBothShares(t *testing.T) {
	a, b := datagramShare(1, 1, 1), datagramShare(1, 3, 2)
	by, all := sums(t, gatewayapi.DatagramEndpoints([]gatewayapi.DatagramShare{a, b, datagramShare(2, 4, 1)}))
	if by[1]*2 != all || by[2]*2 != all {
		t.Errorf("shares %v of %d, want a half of 1 and of 2", by, all)
	}
}
