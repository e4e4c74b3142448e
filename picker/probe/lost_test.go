package probe

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// A picker that has ended is lost at once, but only for a while. Then Envoy's own health check
// decides.
func TestExternalPicker_LostForAWhileAfterItHasEnded(t *testing.T) {
	p, n := runFor(t, 2*time.Second)
	epp := start(t, "127.0.0.1:0", fullDuplex)
	up, down := Answer{Dialect: FullDuplex}, Answer{Dialect: FullDuplex, Down: extproc.ReasonClosedPort}
	lost := down
	lost.Lost = true
	p.Set("epp", at(epp.addr))
	poll.Until(t, "it serves", func() bool { return n.answer("epp") == up })
	epp.server.Stop()
	poll.Until(t, "it is lost no longer", func() bool { return n.answer("epp") == down })
	if all := n.all("epp"); !slices.Equal(all[len(all)-3:], []Answer{up, lost, down}) {
		t.Errorf("reported %+v, want at the end %+v", all, []Answer{up, lost, down})
	}
	again := start(t, epp.addr.String(), fullDuplex)
	poll.Until(t, "it is back", func() bool { return n.answer("epp") == up })
	again.server.Stop()
	poll.Until(t, "it is lost once more", func() bool {
		return n.count("epp", func(a Answer) bool { return a == lost }) > 1
	})
	l, err := net.Listen("tcp", epp.addr.String()) // a new process has the port, but is not ready
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the listener was closed
			}
			_ = c.Close()
		}
	}()
	poll.Until(t, "it is lost until it is connected to", func() bool {
		return n.count("epp", func(a Answer) bool { return a.Lost && a.Down != extproc.ReasonClosedPort }) > 0
	})
	_ = l.Close()
	start(t, epp.addr.String(), fullDuplex)
	poll.Until(t, "it is back once more", func() bool { return n.answer("epp") == up })
}

// A picker is lost only if all its addresses reject connections. Envoy itself decides about a
// silent address, because the link may be cut only from here.
func TestExternalPicker_LostOnceAllPortsAreClosed(t *testing.T) {
	one, two := dial.Address{AddrPort: netip.MustParseAddrPort("192.0.2.1:1")},
		dial.Address{AddrPort: netip.MustParseAddrPort("192.0.2.2:1")}
	for name, c := range map[string]struct {
		down map[dial.Address]string
		lost map[dial.Address]bool
		want bool
	}{
		"one is left": {map[dial.Address]string{one: extproc.ReasonClosedPort},
			map[dial.Address]bool{one: true}, false},
		"one is silent": {
			map[dial.Address]string{one: extproc.ReasonClosedPort, two: "i/o timeout"},
			map[dial.Address]bool{one: true}, false,
		},
		"one starts again": {
			map[dial.Address]string{one: extproc.ReasonClosedPort, two: extproc.ReasonHandshake},
			map[dial.Address]bool{one: true, two: true}, true,
		},
		"one was lost long ago": {
			map[dial.Address]string{one: extproc.ReasonClosedPort, two: extproc.ReasonClosedPort},
			map[dial.Address]bool{one: true}, true,
		},
		"both were, or were never connected": {
			map[dial.Address]string{one: extproc.ReasonClosedPort, two: extproc.ReasonClosedPort}, nil, false,
		},
	} {
		watched := &target{stop: map[dial.Address]context.CancelFunc{one: nil, two: nil}, down: c.down, lost: c.lost}
		if got := watched.gone(); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
	if (&target{}).gone() {
		t.Error("a picker without addresses")
	}
}
