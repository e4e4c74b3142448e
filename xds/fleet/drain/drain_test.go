package drain_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/fleet/drain"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestDrain_WaitsForRequestInFlight(t *testing.T) {
	r := newRig(t)
	long := r.begin(t)
	ended := r.drain(t, drain.Config{Settle: time.Millisecond, Quiet: time.Millisecond})
	poll.Until(t, "Envoy ends connections with their responses", func() bool { return r.closes(t) })
	select {
	case err := <-ended:
		t.Fatalf("ended with a request in flight: %v", err)
	default:
	}
	close(r.finish)
	if err := <-long; err != nil {
		t.Errorf("the request: got %v, want no error", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("drain: got %v, want no error", err)
	}
}

func TestDrain_IdleConnectionDelaysBriefly(t *testing.T) {
	r := newRig(t)
	conn, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := <-r.drain(t, drain.Config{Settle: time.Millisecond, Quiet: 10 * time.Millisecond}); err != nil {
		t.Error(err)
	}
}

func TestDrain_EndsAtTimeout(t *testing.T) {
	r := newRig(t)
	defer close(r.finish)
	r.begin(t)
	if err := <-r.drain(t,
		drain.Config{Settle: time.Millisecond, Quiet: time.Millisecond, Timeout: 300 * time.Millisecond}); err != nil {
		t.Error(err)
	}
}

// Datagrams reach an ending pod until each node has removed it.
func TestDrain_WaitsWhileDatagramsCome(t *testing.T) {
	r := newRig(t)
	conn, err := net.Dial("udp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sending, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	sent := make(chan struct{}, 1000)
	go func() {
		defer close(stopped)
		for sending.Err() == nil {
			_, _ = conn.Write([]byte("x")) // fails without a listener
			select {
			case sent <- struct{}{}:
			default:
			}
			time.Sleep(time.Millisecond)
		}
	}()
	<-sent
	ended := r.drain(t, drain.Config{Settle: time.Millisecond, Quiet: 5 * time.Second})
	for range 500 { // takes at least half a second
		<-sent
	}
	select {
	case err := <-ended:
		t.Errorf("ended while datagrams come: got %v, want no end", err)
	default:
	}
	stop()
	<-stopped
	if err := <-ended; err != nil {
		t.Error(err)
	}
	quick := r.drain(t, drain.Config{Stop: true, Settle: time.Millisecond, Quiet: time.Hour})
	if err := <-quick; err != nil {
		t.Error(err)
	}
}

func TestDrain_UnreachableAdminIsAnError(t *testing.T) {
	if _, err := drain.Drain(t.Context(), drain.Config{Admin: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("no error")
	}
}

type rig struct {
	address, admin string
	begun, finish  chan struct{}
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{begun: make(chan struct{}, 100), finish: make(chan struct{})}
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/long" {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			r.begun <- struct{}{}
			<-r.finish
			fmt.Fprint(w, "whole")
		}
	})}
	go func() { _ = server.Serve(backend) }()
	t.Cleanup(func() { _ = server.Close() })
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = front.Addr().String()
	_ = front.Close()
	envoy := envoytest.Start(t, envoytest.Config{Bootstrap: []byte(fmt.Sprintf(configuration,
		front.Addr().(*net.TCPAddr).Port, backend.Addr().(*net.TCPAddr).Port))})
	envoy.WaitLive()
	r.admin = envoy.AdminSocket()
	return r
}

func (r *rig) begin(t *testing.T) <-chan error {
	t.Helper()
	result := make(chan error, 1)
	go func() {
		resp, err := http.Get("http://" + r.address + "/long")
		if err == nil {
			defer resp.Body.Close()
			var text string
			if _, err = fmt.Fscan(bufio.NewReader(resp.Body), &text); err == nil && text != "whole" {
				err = fmt.Errorf(`got %q, want "whole"`, text)
			}
		}
		result <- err
	}()
	<-r.begun
	return result
}

func (r *rig) drain(t *testing.T, c drain.Config) <-chan error {
	t.Helper()
	c.Admin, c.Interval = r.admin, 20*time.Millisecond
	ended := make(chan error, 1)
	go func() {
		_, err := drain.Drain(context.Background(), c)
		ended <- err
	}()
	return ended
}

func (r *rig) closes(t *testing.T) bool {
	t.Helper()
	resp, err := http.Get("http://" + r.address + "/short")
	if err != nil {
		t.Fatalf("a draining Envoy rejects a request: %v", err)
	}
	_ = resp.Body.Close()
	return resp.Close
}

const configuration = `
static_resources:
  listeners:
  - name: edge
    address: {socket_address: {address: 127.0.0.1, port_value: %[1]d}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: edge
          route_config:
            virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: backend, timeout: 0s}}]}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  - name: datagrams
    address: {socket_address: {protocol: UDP, address: 127.0.0.1, port_value: %[1]d}}
    udp_listener_config: {}
    listener_filters:
    - name: udp
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig
        stat_prefix: datagrams
        matcher:
          on_no_match:
            action:
              name: route
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.Route
                cluster: backend
  clusters:
  - name: backend
    load_assignment:
      cluster_name: backend
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %[2]d}}}}]}]
`
