package envoy

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
)

// freezer is a proxy in front of a picker. After frozen is closed, it accepts connections and
// bytes, but answers nothing.
type freezer struct {
	net.Listener
	to     netip.AddrPort
	frozen chan struct{}
}

func startFreezer(t *testing.T, to netip.AddrPort) *freezer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &freezer{l, to, make(chan struct{})}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return // the test has ended
			}
			open.Go(func() { f.relay(down) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		open.Wait()
	})
	return f
}

func (f *freezer) relay(down net.Conn) {
	defer func() { _ = down.Close() }()
	up, err := net.Dial("tcp", f.to.String())
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(backward{f, down}, up) })
	_, _ = io.Copy(up, down)
	_ = up.Close()
	back.Wait()
}

type backward struct {
	*freezer
	down io.Writer
}

func (a backward) Write(b []byte) (int, error) {
	select {
	case <-a.frozen:
		return len(b), nil
	default:
		return a.down.Write(b)
	}
}

func TestEndpointPicker_FrozenLosesNoPick(t *testing.T) {
	pod := startPod(t, "pod", 200)
	p := startPicker(t, map[string]script{"llm": {endpoints: pod.address.String()}})
	frozen := startFreezer(t, p.address)
	r := newRig(t, p.address)
	r.resources = nil
	r.cluster(ownPicker, endpoints(netip.MustParseAddrPort(frozen.Listener.Addr().String()), p.address)...)
	r.cluster(model.Cluster{Name: named("pool/ns/llm"), Protocol: model.HTTP1, Fallback: model.FallbackNone},
		endpoints(pod.address)...)
	for host, body := range map[string]model.BodyMode{"none": model.BodyNone, "buffered": model.BodyBuffered} {
		r.forward(host, model.Forward{Backends: []model.WeightedBackend{{
			Cluster: named("pool/ns/llm"), Weight: 1,
			Picker: &model.PickerCall{Cluster: model.OurPicker, Pool: poolNamed("llm"), Body: body},
		}}})
	}
	r.start()
	all := func() {
		var requests sync.WaitGroup
		for range 100 { // more concurrent retries than Envoy's default budget allows
			for _, host := range []string{"none", "buffered"} {
				requests.Go(func() {
					if a := r.post(t, host, []byte(`{"prompt": "hello"}`)); a.status != 200 {
						t.Errorf("%s: got %s, want 200", host, a)
					}
				})
			}
		}
		requests.Wait()
	}
	all()
	close(frozen.frozen)
	all()
	all()
}
