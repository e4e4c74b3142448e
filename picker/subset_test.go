package picker

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// A gateway's selector always applies. An invalid or too long selector matches no endpoint. Many
// selectors take bounded memory.
func TestSubset_SelectorsBindAndAreBounded(t *testing.T) {
	list := make([]endpoint.Endpoint, 3)
	for i, zone := range []string{"east", "west", ""} {
		list[i].Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80)
		if zone != "" {
			list[i].Labels = map[string]string{"zone": zone}
		}
	}
	p := &pool{snapshot: &endpoint.Snapshot{Endpoints: list}}
	for selector, want := range map[string]string{
		"zone=east": "100", "zone in (east,west)": "110", "!zone": "001", "zone notin (east)": "011",
		"zone=north": "000",
		"zone=":      "000", "zone in (": "000", "=": "000", "zone=east,zone=west": "000",
		"zone=east" + strings.Repeat(",zone=east", 4096): "000",
	} {
		for range 2 {
			got := ""
			for i := range list {
				got += map[bool]string{true: "1", false: "0"}[p.selected(selector, nil)(&list[i])]
			}
			if got != want {
				t.Errorf("%.40q allows %s, want %s", selector, got, want)
			}
		}
	}
	west := func(e *endpoint.Endpoint) bool { return e.Labels["zone"] == "west" }
	if allowed := p.selected("zone", west); allowed(&list[0]) || !allowed(&list[1]) {
		t.Error("a selector within a subset hint: both must allow an endpoint")
	}
	for i := range 10 * maxSubsets {
		if !p.selected(fmt.Sprintf("zone=east,x%d!=1", i), nil)(&list[0]) {
			t.Fatalf("selector %d matches nothing", i)
		}
	}
	kept := 0
	p.subsets.known.Range(func(any, any) bool { kept++; return true })
	if kept > maxSubsets {
		t.Errorf("%d selectors are kept, want at most %d", kept, maxSubsets)
	}
}
