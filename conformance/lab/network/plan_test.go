package network

import (
	"net/netip"
	"testing"
)

func TestLab_AddressRangesAreDisjoint(t *testing.T) {
	for slot := range Slots {
		p := Plan{Slot: slot}
		parts := []netip.Prefix{p.Pods(), p.Services(), p.LoadBalancers(), netip.PrefixFrom(p.Node(), 32),
			netip.PrefixFrom(p.Outside(), 32)}
		for i, a := range parts {
			if !p.All().Overlaps(a) || p.All().Bits() > a.Bits() {
				t.Errorf("slot %d: %s is outside of %s, want it inside", slot, a, p.All())
			}
			for _, b := range parts[i+1:] {
				if a.Overlaps(b) {
					t.Errorf("slot %d: %s and %s overlap, want them apart", slot, a, b)
				}
			}
		}
		if !p.Services().Contains(p.APIService()) || !p.Services().Contains(p.DNSService()) {
			t.Errorf("slot %d: a cluster IP is outside of %s, want both inside", slot, p.Services())
		}
		if slot > 0 && p.All().Overlaps(Plan{Slot: slot - 1}.All()) {
			t.Errorf("slot %d overlaps the one before, want it apart", slot)
		}
		if len(p.Link()) > 15 {
			t.Errorf("the interface's name: got %s, want at most 15 bytes", p.Link())
		}
	}
}
