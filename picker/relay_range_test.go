package picker

import (
	"net/netip"
	"testing"
)

func TestRelay_LoopbackAndMetadataServerAreNotPicked(t *testing.T) {
	undeclared, declared := &Relay{}, &Relay{CIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
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
	} {
		addrs, outOfRange := c.relay.allowed([]string{c.address})
		if got := len(addrs) == 1 && len(outOfRange) == 0; got != c.allowed {
			t.Errorf("%s with %v declared: allowed %v, want %v", c.address, c.relay.CIDRs, got, c.allowed)
		}
	}
}
