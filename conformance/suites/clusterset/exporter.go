package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
)

// idHeader identifies a request for pickers, servers and clients.
const idHeader = "x-clusterset-request"

// exporter stands in for an exporting cluster: a picker, and a model server at each of
// Config.Addresses, all on one port.
type exporter struct {
	name    string
	picker  *picker
	servers []netip.AddrPort
	port    int
	// release is closed to end streamed responses.
	release chan struct{}

	mu   sync.Mutex
	seen map[string]int // by request; length of the body in bytes
}

type answer struct {
	Cluster string `json:"cluster"`
	Server  string `json:"server"`
}

func (r *run) stands(name string) *exporter {
	e := &exporter{name: name, seen: map[string]int{}, release: make(chan struct{})}
	var listeners []net.Listener
	for try := 0; len(listeners) < len(r.config.Addresses); try++ {
		for i, a := range r.config.Addresses {
			port := 0
			if i > 0 {
				port = listeners[0].Addr().(*net.TCPAddr).Port
			}
			l, err := net.Listen("tcp", netip.AddrPortFrom(a, uint16(port)).String())
			if err != nil && (i == 0 || try > 20) {
				r.fail("stand in as an exporting cluster at %s: %w", a, err)
			} else if err != nil { // the port is in use at this address
				_ = listeners[0].Close()
				listeners = nil
				break
			}
			listeners = append(listeners, l)
		}
	}
	for _, l := range listeners {
		at := netip.MustParseAddrPort(l.Addr().String())
		e.servers, e.port = append(e.servers, at), int(at.Port())
		server := &http.Server{Handler: e.handler(at)}
		go func() { _ = server.Serve(l) }()
		r.after = append(r.after, func() { _ = server.Close() })
	}
	e.picker = r.picker(e.servers[0])
	return e
}

func (e *exporter) handler(at netip.AddrPort) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/stream", func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("content-type", "text/event-stream")
		fmt.Fprint(w, "data: first\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-e.release:
		case <-req.Context().Done():
		}
		fmt.Fprint(w, "data: last\n\n")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		n, _ := io.Copy(io.Discard, req.Body)
		e.mu.Lock()
		e.seen[req.Header.Get(idHeader)] = int(n)
		e.mu.Unlock()
		w.Header().Set("content-type", "application/json")
		_ = json.NewEncoder(w).Encode(answer{Cluster: e.name, Server: at.String()})
	})
	return mux
}

func (e *exporter) body(id int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen[strconv.Itoa(id)]
}

func (e *exporter) entry() map[string]any {
	return map[string]any{
		"name": e.name, "routingMode": "EndpointMode", "targetPortNumber": int64(e.port),
		"endpointPicker": map[string]any{"name": "epp", "service": []any{service(e.picker.address)}},
	}
}

// parentEntry names the exporter's first server as its gateway.
func (e *exporter) parentEntry() map[string]any {
	return map[string]any{
		"name": e.name, "routingMode": "ParentMode", "targetPortNumber": int64(e.port),
		"parents": []any{map[string]any{"name": "gw", "service": []any{service(e.servers[0])}}},
	}
}

func service(at netip.AddrPort) map[string]any {
	return map[string]any{"type": "LoadBalancer", "addresses": []any{at.Addr().String()},
		"ports": []any{map[string]any{"number": int64(at.Port())}}}
}
