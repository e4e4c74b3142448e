package liveness

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/picker/upstream"
	"github.com/penstock-project/penstock/picker/upstream/upstreamtest"
)

var at = netip.MustParseAddrPort("10.0.0.1:8000")

// replies answers probes without a network. err is the error of connecting.
type replies struct {
	probes, running, most atomic.Int32
	reply                 func() (status int, err error)
}

func (r *replies) RoundTrip(request *http.Request) (*http.Response, error) {
	r.probes.Add(1)
	if n := r.running.Add(1); n > r.most.Load() {
		r.most.Store(n)
	}
	defer r.running.Add(-1)
	status, err := r.reply()
	if status == 0 && err == nil {
		<-request.Context().Done()
		err = request.Context().Err()
	}
	if err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	w.WriteHeader(status)
	return w.Result(), nil
}

func (r *replies) checker() *Checker {
	return New(Config{Transport: func(upstream.Protocol) http.RoundTripper { return r }})
}

func TestLiveness_DeadServerIsFound(t *testing.T) {
	closed := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for name, c := range map[string]struct {
		after  time.Duration // probes before get 200
		status int
		err    error
		dead   bool
		took   time.Duration
	}{
		"health fails":    {status: 503, dead: true},
		"nothing listens": {err: closed, dead: true},
		"health fails later": {after: 230 * time.Millisecond, status: 500, dead: true,
			took: 250 * time.Millisecond},
		"nothing listens later": {after: 401 * time.Millisecond, err: closed, dead: true,
			took: 450 * time.Millisecond},
		"it works":                   {status: 200, took: Within},
		"it has no /health":          {status: 404, took: Within},
		"it is too busy":             {took: silence + 3*pause},
		"it speaks another protocol": {err: errors.New("malformed HTTP response"), took: Within},
		"it closes the connection":   {err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}, took: Within},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			r := &replies{reply: func() (int, error) {
				if time.Since(began) < c.after {
					return 200, nil
				}
				return c.status, c.err
			}}
			dead := r.checker().Dead(t.Context(), at, upstream.Protocol{})
			if took := time.Since(began); dead != c.dead || took != c.took {
				t.Errorf("%s: got %v after %s, want %v after %s", name, dead, took, c.dead, c.took)
			}
		})
	}
}

func TestLiveness_RequestsShareProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &replies{reply: func() (int, error) {
			time.Sleep(5 * time.Millisecond)
			return 200, nil
		}}
		c := r.checker()
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() { c.Dead(t.Context(), at, upstream.Protocol{}) })
			time.Sleep(time.Millisecond)
		}
		all.Wait()
		if n, most := r.probes.Load(), r.most.Load(); n < 10 || n > 16 || most != 1 {
			t.Errorf("%d probes, %d at a time; want 16 at most in 0.7 s, one at a time", n, most)
		}
		if len(c.servers) != 0 || c.waiting != 0 {
			t.Errorf("%d servers and %d requests are kept, want 0 and 0", len(c.servers), c.waiting)
		}
	})
}

func TestLiveness_ProbeOutlivesItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &replies{reply: func() (int, error) {
			time.Sleep(100 * time.Millisecond)
			return 503, nil
		}}
		c := r.checker()
		gone, leave := context.WithCancel(t.Context())
		go c.Dead(gone, at, upstream.Protocol{})
		synctest.Wait()
		time.AfterFunc(10*time.Millisecond, leave)
		if !c.Dead(t.Context(), at, upstream.Protocol{}) || r.probes.Load() != 1 {
			t.Errorf("the dead server was not found, or with %d probes; want 1", r.probes.Load())
		}
	})
}

func TestLiveness_IsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &replies{reply: func() (int, error) { return 0, nil }}
		c := r.checker()
		var all sync.WaitGroup
		for i := range maxProbes + 10 {
			all.Go(func() { c.Dead(t.Context(), netip.AddrPortFrom(at.Addr(), uint16(i+1)), upstream.Protocol{}) })
		}
		all.Wait()
		if most := r.most.Load(); most != maxProbes {
			t.Errorf("%d probes at a time, want %d", most, maxProbes)
		}
		for range maxWaiting {
			all.Go(func() { c.Dead(t.Context(), at, upstream.Protocol{}) })
		}
		synctest.Wait()
		began := time.Now()
		if c.Dead(t.Context(), at, upstream.Protocol{}) || time.Since(began) != 0 {
			t.Errorf("one request too many: dead, or waited for %s; want neither", time.Since(began))
		}
		all.Wait()
	})
}

func TestLiveness_NeverCallsForbiddenAddresses(t *testing.T) {
	r := &replies{reply: func() (int, error) { return 503, nil }}
	c := New(Config{
		Transport: func(upstream.Protocol) http.RoundTripper { return r },
		Never:     func(netip.Addr) string { return "link-local" },
	})
	if c.Dead(t.Context(), at, upstream.Protocol{}) || r.probes.Load() != 0 {
		t.Errorf("dead, or %d probes; want neither", r.probes.Load())
	}
}

func TestLiveness_OfProcesses(t *testing.T) {
	health := 200
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			w.WriteHeader(health)
		}
	}))
	defer s.Close()
	addr := netip.MustParseAddrPort(s.Listener.Addr().String())
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	secure := upstream.Protocol{TLS: &tls.Config{RootCAs: roots, ServerName: "example.com"}}
	c := New(Config{})
	if c.Dead(t.Context(), addr, secure) {
		t.Error("a server that works is dead")
	}
	health = 503
	if !c.Dead(t.Context(), addr, secure) {
		t.Error("a server whose health fails works")
	}
	s.Close()
	if !c.Dead(t.Context(), addr, secure) {
		t.Error("a server whose port is closed works")
	}
}

// A server that speaks only h2c resets HTTP/1.1 calls, even if it is not dead.
func TestLiveness_OfProcessesThatSpeakH2C(t *testing.T) {
	var health atomic.Int64
	health.Store(http.StatusOK)
	s, addr := upstreamtest.H2C(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			w.WriteHeader(int(health.Load()))
		}
	}))
	c, by := New(Config{}), upstream.Protocol{HTTP2: true}
	var sight Sight
	look := func() string {
		c.Look(t.Context(), addr, by)(&sight, Shown{})
		why, _ := sight.Down(time.Time{})
		return why
	}
	if c.Dead(t.Context(), addr, by) || look() != "" {
		t.Error("a server that works is dead")
	}
	health.Store(http.StatusServiceUnavailable)
	if why := look(); !c.Dead(t.Context(), addr, by) || why != "/health answers 503" {
		t.Errorf(`a server whose health fails: got alive, or %q; want dead, and "/health answers 503"`, why)
	}
	s.Close()
	if why := look(); !c.Dead(t.Context(), addr, by) || why != "connection refused" {
		t.Errorf(`a server whose port is closed: got alive, or %q; want dead, and "connection refused"`, why)
	}
}

// A dying engine prints its stack before it answers, so Dead waits for a late answer.
func TestLiveness_SilentServerIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := &replies{reply: func() (int, error) {
			if time.Since(began) < time.Second {
				return 0, nil
			}
			return 503, nil
		}}
		if dead := r.checker().Dead(t.Context(), at, upstream.Protocol{}); !dead ||
			time.Since(began) != 1100*time.Millisecond {
			t.Errorf("got %v after %s, want a dead server after 1.1 s", dead, time.Since(began))
		}
	})
}
