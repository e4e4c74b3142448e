package envoy

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
)

func TestAppProtocol_EachServiceGetsItsProtocol(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	_, _, pair := ca.server("ws.example")
	protocol := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { w.Header().Set("Pod", req.Proto) })
	h1 := (&pod{}).serve(t, protocol)
	h2c := httptest.NewUnstartedServer(protocol)
	h2c.Config.Protocols = &http.Protocols{}
	h2c.Config.Protocols.SetUnencryptedHTTP2(true)
	h2c.Start()
	t.Cleanup(h2c.Close)
	ws := (&pod{}).serve(t, http.HandlerFunc(echoFrames))
	wss := httptest.NewUnstartedServer(http.HandlerFunc(echoFrames))
	wss.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	wss.StartTLS()
	t.Cleanup(wss.Close)
	r := newRig(t, closedPort(t))
	r.add(Secret(model.Secret{Name: "ca", CA: ca.pem}))
	for name, c := range map[string]struct {
		protocol model.Protocol
		tls      *model.UpstreamTLS
		at       netip.AddrPort
	}{
		"h1": {model.HTTP1, nil, h1.address}, "h2c": {model.H2C, nil, at(h2c)}, "ws": {model.HTTP1, nil, ws.address},
		"wss": {model.HTTP1, &model.UpstreamTLS{SNI: "ws.example", Trust: "ca", SANs: []string{"ws.example"}}, at(wss)},
	} {
		r.cluster(model.Cluster{Name: named(name), Protocol: c.protocol, TLS: c.tls}, endpoints(c.at)...)
		r.forward(name, backends(model.WeightedBackend{Cluster: named(name), Weight: 1}))
	}
	r.start()
	over2 := &http.Transport{Protocols: &http.Protocols{}}
	over2.Protocols.SetUnencryptedHTTP2(true)
	for host, want := range map[string]string{"h1": "HTTP/1.1", "h2c": "HTTP/2.0"} {
		if got := r.post(t, host, nil); got.status != 200 || got.pod != want {
			t.Errorf("%s: got %s, want %s", host, got, want)
		}
		// The pod's protocol is the same if the client uses HTTP/2.
		resp, err := over2.RoundTrip(r.request("GET", host, "/", nil))
		if err != nil || resp.StatusCode != 200 || resp.ProtoMajor != 2 || resp.Header.Get("Pod") != want {
			t.Errorf("%s, asked over HTTP/2: got %v %v, want 200, and %s at the pod", host, resp, err, want)
		}
	}
	for _, host := range []string{"ws", "wss"} {
		t.Run(host, func(t *testing.T) { r.upgrades(t, host) })
	}
}

func at(s *httptest.Server) netip.AddrPort {
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}

func TestRetry_FollowsCodesAndAttempts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	tries := map[string]int{}
	flaky := (&pod{}).serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		q := req.URL.Query()
		id := q.Get("id")
		tries[id]++
		code, _ := strconv.Atoi(q.Get("code"))
		if after, _ := strconv.Atoi(q.Get("after")); tries[id] > after {
			code = 200
		}
		w.Header().Set("Pod", "flaky")
		w.WriteHeader(code)
	}))
	r := newRig(t, closedPort(t))
	r.cluster(model.Cluster{Name: named("flaky"), Protocol: model.HTTP1}, endpoints(flaky.address)...)
	one := []model.WeightedBackend{{Cluster: named("flaky"), Weight: 1}}
	r.forward("none", model.Forward{Backends: one})
	r.forward("code-500-attempts-3", model.Forward{
		Backends: one, Retry: &model.Retry{Attempts: 3, Codes: []uint32{500}},
	})
	r.forward("code-all-attempts-2", model.Forward{
		Backends: one, Retry: &model.Retry{Attempts: 2, Codes: []uint32{500, 502, 503, 504}},
	})
	r.start()
	for i, c := range []struct {
		host               string
		code, after        int
		wantCode, wantTook int
	}{
		{"none", 500, 1, 500, 1},
		{"code-500-attempts-3", 500, 2, 200, 3}, {"code-500-attempts-3", 500, 4, 500, 4},
		{"code-500-attempts-3", 503, 2, 503, 1},
		{"code-all-attempts-2", 500, 1, 200, 2}, {"code-all-attempts-2", 502, 1, 200, 2},
		{"code-all-attempts-2", 503, 2, 200, 3}, {"code-all-attempts-2", 504, 3, 504, 3},
	} {
		q := url.Values{"id": {strconv.Itoa(i)}, "code": {strconv.Itoa(c.code)}, "after": {strconv.Itoa(c.after)}}
		got, err := r.do(r.request("GET", c.host, "/?"+q.Encode(), nil))
		if err != nil || got.status != c.wantCode || tries[q.Get("id")] != c.wantTook {
			t.Errorf("%s: %d until try %d: got %s after %d tries %v, want %d after %d",
				c.host, c.code, c.after, fmt.Sprint(got), tries[q.Get("id")], err, c.wantCode, c.wantTook)
		}
	}
}
