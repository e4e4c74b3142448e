package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func server(t *testing.T, secure, http1, http2 bool) (at netip.AddrPort, open *atomic.Int64) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	}))
	open = new(atomic.Int64)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		case http.StateActive, http.StateIdle:
		}
	}
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(http1)
	if secure {
		s.Config.Protocols.SetHTTP2(http2)
		s.EnableHTTP2 = http2
		s.StartTLS()
	} else {
		s.Config.Protocols.SetUnencryptedHTTP2(http2)
		s.Start()
	}
	t.Cleanup(s.Close)
	return netip.MustParseAddrPort(s.Listener.Addr().String()), open
}

func call(t *testing.T, by http.RoundTripper, url string) (proto string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := by.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

func TestProtocol_ServersAreReachedAsTheyAreDeclared(t *testing.T) {
	insecure := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // of a test
	for name, tt := range map[string]struct {
		secure, http1, http2 bool
		by                   Protocol
		want                 string
	}{
		"HTTP/1.1":          {false, true, false, Protocol{}, "HTTP/1.1"},
		"h2c":               {false, false, true, Protocol{HTTP2: true}, "HTTP/2.0"},
		"TLS":               {true, true, true, Protocol{TLS: insecure}, "HTTP/1.1"},
		"HTTP/2 over TLS":   {true, true, true, Protocol{TLS: insecure, HTTP2: true}, "HTTP/2.0"},
		"TLS without h2":    {true, true, false, Protocol{TLS: insecure, HTTP2: true}, "HTTP/1.1"},
		"h2c of TLS's pool": {false, false, true, Protocol{TLS: insecure, HTTP2: true}.WithoutTLS(), "HTTP/2.0"},
	} {
		for _, idle := range []int{0, 1} {
			at, open := server(t, tt.secure, tt.http1, tt.http2)
			by := tt.by.Transport(idle)
			for range 3 {
				if got, err := call(t, by, tt.by.URL(at)); got != tt.want {
					t.Errorf("%s, %d idle: %q, %v; want %q", name, idle, got, err, tt.want)
				}
			}
			if idle == 0 { // no idle connection is kept
				poll.Until(t, name+": no connection is open", func() bool { return open.Load() == 0 })
			} else if open.Load() != 1 {
				t.Errorf("%s: %d connections are open, want one", name, open.Load())
			}
			by.CloseIdleConnections()
		}
	}
	if len(insecure.NextProtos) > 0 {
		t.Error("the shared TLS configuration was changed")
	}
}

// Package liveness treats "connection refused" as proof of a dead server.
func TestProtocol_ClosedPortOfH2CIsSeen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(l.Addr().String())
	_ = l.Close()
	by := Protocol{HTTP2: true}
	_, err = call(t, by.Transport(0), by.URL(at))
	var dial *net.OpError
	if !errors.As(err, &dial) || dial.Op != "dial" || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error %v, want connection refused by dial", err)
	}
}
