package probe

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// valve forwards a connection, and can hold data back, as if the receiver were a stopped process.
type valve struct {
	addr netip.AddrPort
	open chan chan struct{} // holds a channel; closing that channel opens the valve
}

func newValve(t *testing.T, to netip.AddrPort) *valve {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	v := &valve{addr: netip.MustParseAddrPort(l.Addr().String()), open: make(chan chan struct{}, 1)}
	opened := make(chan struct{})
	close(opened)
	v.open <- opened
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", to.String())
			if err != nil {
				_ = from.Close()
				continue
			}
			t.Cleanup(func() { _, _ = from.Close(), there.Close() })
			go func() { _, _ = io.Copy(from, there) }()
			go v.copy(there, from)
		}
	}()
	return v
}

func (v *valve) copy(to io.Writer, from io.Reader) {
	part := make([]byte, 1<<16)
	for {
		n, err := from.Read(part)
		if err != nil {
			return
		}
		open := <-v.open
		v.open <- open
		<-open
		if _, err := to.Write(part[:n]); err != nil {
			return
		}
	}
}

func (v *valve) hold() (release func()) {
	<-v.open
	open := make(chan struct{})
	v.open <- open
	return func() { close(open) }
}

// With and without a health service, a picker that accepts requests but answers nothing is frozen
// for a while. Then Envoy's own health check decides.
func TestExternalPicker_FrozenForAWhileOnceItDoesNotAnswer(t *testing.T) {
	for name, with := range map[string][]any{"with a health service": {servingHealth()}, "without one": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, n := runFor(t, 2*time.Second)
			epp := start(t, "127.0.0.1:0", fullDuplex, with...)
			v := newValve(t, epp.addr)
			up := Answer{Dialect: FullDuplex, Health: with != nil}
			mute, still := up, up
			mute.Down, mute.Frozen = silentReason, true
			still.Down = silentReason
			p.Set("epp", at(v.addr))
			for range 2 {
				poll.Until(t, "it serves", func() bool { return n.answer("epp") == up })
				release := v.hold()
				poll.Until(t, "it is frozen no longer", func() bool { return n.answer("epp") == still })
				release()
				poll.Until(t, "it is back", func() bool { return n.answer("epp") == up })
				if all := n.all("epp"); !slices.Equal(all[len(all)-3:], []Answer{mute, still, up}) {
					t.Errorf("reported %+v, want at the end %+v", all, []Answer{mute, still, up})
				}
			}
		})
	}
}

// A picker is frozen only if no other address serves, because Envoy would call that address.
func TestExternalPicker_FrozenOnceNoOtherServes(t *testing.T) {
	one := dial.Address{AddrPort: netip.MustParseAddrPort("192.0.2.1:1")}
	two := dial.Address{AddrPort: netip.MustParseAddrPort("192.0.2.2:1")}
	closed := map[dial.Address]string{two: extproc.ReasonClosedPort}
	for name, c := range map[string]struct {
		signs map[dial.Address]sign
		down  map[dial.Address]string
		want  bool
	}{
		"the other serves":    {signs: map[dial.Address]sign{one: frozen}},
		"the other stands by": {signs: map[dial.Address]sign{one: frozen, two: standsBy}, want: true},
		"the other is down":   {signs: map[dial.Address]sign{one: frozen}, down: closed, want: true},
		"both are":            {signs: map[dial.Address]sign{one: frozen, two: frozen}, want: true},
		"both stand by":       {signs: map[dial.Address]sign{one: standsBy, two: standsBy}},
		"it was long ago":     {signs: map[dial.Address]sign{one: silent, two: standsBy}},
	} {
		watched := &target{stop: map[dial.Address]context.CancelFunc{one: nil, two: nil}, signs: c.signs, down: c.down}
		if got := watched.frozen(); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

func servingHealth() *health.Server {
	h := health.NewServer()
	h.SetServingStatus(ServiceName, healthv1.HealthCheckResponse_SERVING)
	return h
}
