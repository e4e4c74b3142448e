package envoy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/bootstrap"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

type pod struct {
	name    string
	address netip.AddrPort
	hits    atomic.Int32
	last    atomic.Pointer[http.Request]
}

func startPod(t testing.TB, name string, status int) *pod {
	t.Helper()
	p := &pod{name: name}
	return p.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.last.Store(r)
		p.hits.Add(1)
		body, _ := io.ReadAll(r.Body)
		for k, v := range r.Header {
			w.Header()["Echo-"+k] = v
		}
		w.Header().Set("Echo-Host", r.Host)
		w.Header().Set("Echo-Path", r.URL.RequestURI())
		w.Header().Set("Pod", name)
		w.Header().Set("Spoken", r.Proto)
		w.WriteHeader(status)
		fmt.Fprintf(w, "%d %x", len(body), sha256.Sum256(body))
	}))
}

func (p *pod) serve(t testing.TB, h http.Handler) *pod {
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = &http.Protocols{}
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	p.address = netip.MustParseAddrPort(s.Listener.Addr().String())
	return p
}

func closedPort(t testing.TB) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(envoytest.FreePort(t)))
}

// rig collects a model's resources, and runs a real Envoy with them.
type rig struct {
	t         *testing.T
	cfg       Config
	port      uint16
	edge      model.Edge
	preface   string // bytes that a client sends first on each connection
	resources []*resource.Resource
	hosts     []*Encoded
	hops      []model.Hop
	envoy     *envoytest.Envoy
	client    *http.Client
	feeder    *feeder
}

var ownPicker = model.Cluster{Name: model.OurPicker, Protocol: model.GRPC, Own: true}

func newRig(t *testing.T, ourPicker netip.AddrPort) *rig {
	r := &rig{t: t, port: uint16(envoytest.FreePort(t))}
	r.cluster(ownPicker, model.Endpoint{Address: ourPicker})
	return r
}

func (r *rig) add(res *resource.Resource, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	r.resources = append(r.resources, res)
}

func named(name string) model.ClusterID {
	id, ok := model.ParseClusterID(name)
	if !ok {
		panic("not the name of a cluster: " + name)
	}
	return id
}

func poolNamed(name string) objectid.Target {
	if name == "" {
		return objectid.Target{}
	}
	return objectid.Target{Pool: objectid.Pool{Namespace: "ns", Name: name}}
}

func (r *rig) cluster(c model.Cluster, endpoints ...model.Endpoint) {
	r.t.Helper()
	r.add(Cluster(&c))
	r.add(Endpoints(&model.Assignment{Cluster: c.Name, Endpoints: endpoints}))
}

func (r *rig) hop(h model.Hop) { r.hops = append(r.hops, h) }

func (r *rig) host(host string, routes ...model.Route) {
	r.t.Helper()
	vh, err := VirtualHost(&model.VirtualHost{Chain: r.chain().Name, Host: host, Routes: routes})
	if err != nil {
		r.t.Fatal(err)
	}
	r.hosts = append(r.hosts, vh)
}

func (r *rig) forward(host string, f model.Forward) {
	r.t.Helper()
	r.host(host, model.Route{
		Name:   host,
		Match:  model.Match{PathKind: model.PathPrefix, Path: "/"},
		Action: &model.Action{Forward: &f},
	})
}

func (r *rig) chain() model.Chain { return model.Chain{Name: model.ChainName(false, r.port, "")} }

func (r *rig) start() {
	r.t.Helper()
	c := r.chain()
	r.add(
		Listener(r.cfg,
			model.Port{Gateway: "ns/gw", Number: r.port, Addresses: []string{"127.0.0.1"}, Edge: r.edge,
				Chains: []model.Chain{c}}))
	r.add(inOneBlock(c, r.hosts...))
	if len(r.hops) > 0 {
		r.add(HopListener(r.cfg, nil))
		r.add(hopRoutes(r.hops...))
	}
	var ads string
	r.feeder, ads = startFeeder(r.t, r.resources)
	r.envoy = envoytest.StartGateway(r.t, bootstrap.Config{Gateway: "ns/gw", ADS: []string{ads}})
	r.envoy.WaitLive()
	r.t.Cleanup(func() {
		for _, n := range r.feeder.rejected() {
			r.t.Errorf("NACK: %s, want none", n)
		}
	})
	r.client = &http.Client{
		Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := (&net.Dialer{}).DialContext(ctx, network, address)
				if err == nil && r.preface != "" {
					_, err = io.WriteString(c, r.preface)
				}
				return c, err
			}},
		Timeout:       20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	r.envoy.Wait("the listener answers", func() bool {
		c, err := net.Dial("tcp", r.address())
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	r.envoy.Wait("routes are there", func() bool {
		resp, err := r.do(r.request("GET", "unknown.example", "/", nil))
		return err == nil && resp.status == 404
	})
}

func (r *rig) healthy(clusters ...string) {
	r.t.Helper()
	for _, c := range clusters {
		stat := "cluster." + c + ".membership_healthy"
		r.envoy.Wait(c+" is healthy", func() bool { return r.envoy.Stats(stat)[stat] > 0 })
	}
}

func (r *rig) address() string { return fmt.Sprintf("127.0.0.1:%d", r.port) }

func (r *rig) request(method, host, path string, body []byte) *http.Request {
	r.t.Helper()
	req, err := http.NewRequest(method, "http://"+r.address()+path, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Host = host
	return req
}

type answer struct {
	status int
	pod    string
	header http.Header
	body   string
}

func (a answer) String() string { return fmt.Sprintf("%d from %q: %.80s", a.status, a.pod, a.body) }

func (r *rig) do(req *http.Request) (answer, error) {
	resp, err := r.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header.Get("Pod"), resp.Header, string(body)}, err
}

func (r *rig) post(t testing.TB, host string, body []byte) answer {
	t.Helper()
	req := r.request("POST", host, "/v1/chat/completions", body)
	req.Header.Set("Content-Type", "application/json")
	a, err := r.do(req)
	if err != nil {
		t.Fatalf("%s: %v", host, err)
	}
	return a
}

func digest(body []byte) string { return fmt.Sprintf("%d %x", len(body), sha256.Sum256(body)) }

func endpoints(addresses ...netip.AddrPort) []model.Endpoint {
	var out []model.Endpoint
	for _, a := range addresses {
		out = append(out, model.Endpoint{Address: a})
	}
	return out
}

func list(parts ...any) string {
	var s []string
	for _, p := range parts {
		s = append(s, fmt.Sprint(p))
	}
	return strings.Join(s, ",")
}
