package picker

import (
	"net/netip"
	"testing"
)

func TestRelay_LoopbackAndMetadataServerAreNotPicked(t *testing.T) {
	undeclared, declared := &Relay{}, &Relay{Within: [][]netip.Prefix{{netip.MustParsePrefix("127.0.0.0/8")}}}
	narrowed := &Relay{
		Within: [][]netip.Prefix{{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.0/24")},
			{netip.MustParsePrefix("0.0.0.0/0")}, {netip.MustParsePrefix("10.1.0.0/16")}},
	}
	p := &Picker{config: Config{Addresses: outsideOf{prefix: netip.MustParsePrefix("10.1.9.0/24")}}}
	for _, c := range []struct {
		relay   *Relay
		address string
		allowed bool
	}{
		{undeclared, "10.1.2.3:8000", true},
		{undeclared, "[2001:db8::1]:8000", true},
		{undeclared, "127.0.0.1:8000", false},
		{undeclared, "[::ffff:127.0.0.1]:8000", false},
		{undeclared, "169.254.169.254:80", false},
		{undeclared, "0.0.0.0:8000", false},
		{undeclared, "224.0.0.1:8000", false},
		{declared, "127.0.0.1:8000", true},
		{declared, "10.1.2.3:8000", false},
		{undeclared, "10.1.9.3:8000", false}, // outside the operator's ranges
		{narrowed, "10.1.9.3:8000", false},
		{narrowed, "10.1.2.3:8000", true},
		{narrowed, "10.2.2.3:8000", false}, // in the importer's range, but not in the exporter's
		{narrowed, "192.0.2.1:8000", false},
	} {
		addrs, outOfRange := p.nameable(c.relay, []string{c.address})
		if got := len(addrs) == 1 && len(outOfRange) == 0; got != c.allowed {
			t.Errorf("%s with %v declared: allowed %v, want %v", c.address, c.relay.Within, got, c.allowed)
		}
	}
}
