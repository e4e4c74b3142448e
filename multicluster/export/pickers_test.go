package export_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/multicluster/export"
)

// A cluster's picker may run in any number of processes. An export lists as many of their addresses
// as an import has room for, and always the same addresses.
func TestExport_AnyNumberOfPickersIsAllowed(t *testing.T) {
	pool := strings.Replace(seedPool, "  endpointPickerRef:\n    name: epp\n    port: {number: 9002}\n", "", 1)
	for _, c := range []struct {
		pickers, services, listed int
		port                      func(i int) int
	}{
		{17, 1, 17, func(int) int { return 9002 }},
		{65, 2, 65, func(int) int { return 9002 }},
		{40, 2, 40, func(i int) int { return 9002 + i%2 }},
		{1000, 4, 256, func(int) int { return 9002 }},
		{20, 16, 16, func(i int) int { return 9002 + i }},
	} {
		name := fmt.Sprintf("%d pickers at ports of up to %d", c.pickers, c.port(c.pickers-1))
		open := set
		for i := range c.pickers {
			addr := netip.MustParseAddr(fmt.Sprintf("2001:db8:ffff:ffff:ffff:ffff:%x:ffff", 0xf000+i))
			open.Pickers = append(open.Pickers, netip.AddrPortFrom(addr, uint16(c.port(i))))
		}
		d := decide(t, open, pool, "", export.Pool{})
		if d.Export == nil {
			t.Fatalf("%s: not exported, want it: %s", name, d.Message)
		}
		if _, bad := d.Export.Entry.Violation(); bad != nil {
			t.Errorf("%s: no import may have it: %+v", name, bad)
		}
		listed := 0
		for _, s := range d.Export.Entry.EndpointPicker.Service {
			listed += len(s.Addresses)
		}
		if n := len(d.Export.Entry.EndpointPicker.Service); n != c.services || listed != c.listed {
			t.Errorf("%s: %d services, %d addresses; want %d, %d", name, n, listed, c.services, c.listed)
		}
		want := ""
		if cut := c.pickers - c.listed; cut > 0 {
			want = fmt.Sprintf("no room for %d more", cut)
		}
		if got := texts(d.Findings); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: findings %q, want %q", name, got, want)
		}
		slices.Reverse(open.Pickers)
		if diff := cmp.Diff(d.Export, decide(t, open, pool, "", export.Pool{}).Export); diff != "" {
			t.Errorf("%s in another order, want the same:\n%s", name, diff)
		}
	}
}
