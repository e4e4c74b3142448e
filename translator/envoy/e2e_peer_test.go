package envoy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

// gatewayOf returns a certificate with a SPIFFE ID, which may be of another cluster than the CA.
func (a *authority) gatewayOf(uri string) tls.Certificate {
	_, _, pair := a.pairs(uri)
	return pair
}

func (a *authority) pairs(uri string) (chain, key []byte, pair tls.Certificate) {
	a.t.Helper()
	id, err := url.Parse(uri)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.pair(&x509.Certificate{URIs: []*url.URL{id}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
}

// peerRig has a peer listener of cluster west with two pools. The members home and south may use
// chat; only south may use code.
type peerRig struct {
	*rig
	west, home, south *authority
	chat, code        *pod
	picker            *picker
	port              uint16
}

const (
	chatHost = "chat.team-a.west.pool.penstock"
	codeHost = "code.team-a.west.pool.penstock"
)

func newPeerRig(t *testing.T) *peerRig {
	t.Helper()
	return newPeerRigOf(t, model.Edge{})
}

func newPeerRigOf(t *testing.T, edge model.Edge) *peerRig {
	t.Helper()
	edge.Uploads = 1 << 30
	chat, code := startPod(t, "chat", 200), startPod(t, "code", 200)
	p := startPicker(t,
		map[string]script{"chat": {endpoints: chat.address.String()}, "code": {endpoints: code.address.String()},
			"gated": {endpoints: chat.address.String()}, "full": {status: 503}})
	r := &peerRig{rig: newRig(t, p.address), west: newAuthority(t), home: newAuthority(t), south: newAuthority(t),
		chat: chat, code: code, picker: p, port: uint16(envoytest.FreePort(t))}
	chain, key, _ := r.west.pairs(model.GatewayURI("west"))
	r.add(Secret(model.Secret{Name: model.MemberCertificate, Chain: chain, Key: key}))
	r.add(
		Secret(model.Secret{Name: model.MembersTrust,
			Domains: []model.TrustDomain{{Name: "home", Bundle: r.home.pem}, {Name: "south", Bundle: r.south.pem}}}))
	failing := startPod(t, "failing", 503)
	var hosts []*Encoded
	for _, h := range []struct {
		name    string
		pod     *pod
		members []string
	}{{"chat", chat, []string{"home", "south"}}, {"code", code, []string{"south"}}, {"full", chat, []string{"home"}},
		{"busy", failing, []string{"home"}}, {"gated", chat, []string{"south"}}} {
		r.cluster(model.Cluster{Name: named("pool/team-a/" + h.name), Protocol: model.HTTP1,
			Fallback: model.FallbackPods}, endpoints(h.pod.address)...)
		b := pool("pool/team-a/"+h.name, h.name, model.BodyBuffered)
		if h.name == "busy" {
			b.Picker = nil
		}
		host, err := PeerHost(&model.PeerHost{Host: model.PeerAuthority("team-a", h.name, "west"), Members: h.members,
			Gated: h.name == "gated", Believed: map[string][]string{"home": {"Groups", "Owner"}},
			Backends: []model.WeightedBackend{b}})
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, host)
	}
	r.add(
		PeerListener(r.cfg,
			model.PeerListener{
				Port:    model.Port{Gateway: "ns/gw", Number: r.port, Addresses: []string{"127.0.0.1"}, Edge: edge},
				Cluster: "west",
			}))
	r.add(inOneBlock(model.Chain{Name: model.PeerChain(r.port)}, hosts...))
	// The same Envoy is also a Gateway of member home.
	chain, key, _ = r.home.pairs(model.GatewayURI("home"))
	r.add(Secret(model.Secret{Name: "home", Chain: chain, Key: key}))
	r.add(Secret(model.Secret{Name: model.MemberTrust("west"), CA: r.west.pem}))
	r.add(Secret(model.Secret{Name: model.MemberTrust("east"), CA: r.south.pem}))
	at := closedPort(t)
	for member, host := range map[string]string{"west": chatHost, "east": chatHost} {
		id := model.PeerCluster("team-a", "chat", member)
		r.cluster(model.Cluster{Name: id, Protocol: model.H2C, Peer: true, TLS: &model.UpstreamTLS{
			SNI: host, Trust: model.MemberTrust(member), URIs: []string{model.GatewayURI(member)}, Certificate: "home",
		}}, endpoints(netip.AddrPortFrom(at.Addr(), r.port))...)
		r.forward(member, backends(model.WeightedBackend{Cluster: id, Weight: 1, Peer: host}))
	}
	service := (&pod{name: "gate"}).serve(t, gateServer{t})
	r.cluster(gateCluster, endpoints(service.address)...)
	to := backends(model.WeightedBackend{Cluster: model.PeerCluster("team-a", "chat", "west"), Weight: 1,
		Peer: chatHost})
	r.host("gated", model.Route{Name: "gated", Match: prefix("/"), Gates: []string{"caller"},
		Action: &model.Action{Forward: &to}})
	hop := model.HopTo("InferencePoolImport", "team-a", "chat")
	r.hop(model.Hop{Name: hop, Backends: to.Backends})
	r.cluster(model.Cluster{Name: named("hops-far"), Protocol: model.HTTP1, Fallback: model.FallbackHops, Hops: true},
		model.Endpoint{Hop: hop})
	through := backends(model.WeightedBackend{Cluster: named("hops-far"), Weight: 1, Hops: true})
	r.host("gated-hop", model.Route{Name: "gated-hop", Match: prefix("/"), Gates: []string{"caller"},
		Action: &model.Action{Forward: &through}})
	r.forward("open-hop", through)
	r.start()
	r.envoy.Wait("a member is answered", func() bool {
		a, err := r.ask(r.client("home", r.home, chatHost), chatHost, nil)
		return err == nil && a.status == 200
	})
	return r
}

func (r *peerRig) client(cluster string, ca *authority, sni string) *tls.Config {
	c := &tls.Config{ServerName: sni, InsecureSkipVerify: true}
	if ca != nil {
		c.Certificates = []tls.Certificate{ca.gatewayOf(model.GatewayURI(cluster))}
	}
	return c
}

func (r *peerRig) ask(c *tls.Config, authority string, header http.Header) (answer, error) {
	tr := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequest("POST", fmt.Sprintf("https://127.0.0.1:%d/v1/chat/completions?x=%%2F", r.port),
		strings.NewReader("{}"))
	if err != nil {
		return answer{}, err
	}
	req.Host = authority
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := (&http.Client{Transport: tr, Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header.Get("Pod"), resp.Header, string(body)}, err
}

// A member that an AccessPolicy denies gets a 403 with the reason in the API's error format. A
// reason header from a member or from a server is removed.
func TestPeerListener_DeniesMembersInTheFormatOfTheAPI(t *testing.T) {
	t.Parallel()
	r := newPeerRig(t)
	const gatedHost = "gated.team-a.west.pool.penstock"
	for _, c := range []struct {
		what   string
		client *tls.Config
		host   string
		want   string // status, reason, and the code in the body
	}{
		{"another member", r.client("home", r.home, gatedHost), gatedHost,
			`403 member_not_permitted {"code":"member_not_permitted",`},
		{"the member", r.client("south", r.south, gatedHost), gatedHost, "200  "},
		{"a pool that is not for it", r.client("home", r.home, codeHost), codeHost, `403 denied {"code":"denied",`},
	} {
		a, err := r.ask(c.client, c.host, http.Header{"X-Penstock-Reason": {"forged"}})
		body := ""
		if err == nil && a.status != 200 {
			body = strings.TrimPrefix(a.body, `{"error":`)
		}
		if got := fmt.Sprint(a.status, " ", a.header.Get(headerReason), " ", body); err != nil ||
			!strings.HasPrefix(got, c.want) || a.header.Get("Echo-X-Penstock-Reason") != "" {
			t.Errorf("%s: %s %v, want %s", c.what, got, err, c.want)
		}
	}
}

func TestPeerListener_AdmitsMembersToTheirPoolsAlone(t *testing.T) {
	t.Parallel()
	r := newPeerRig(t)
	stranger := newAuthority(t)
	custom := func(ca *authority, uri string) *tls.Config {
		return &tls.Config{ServerName: chatHost, InsecureSkipVerify: true,
			Certificates: []tls.Certificate{ca.gatewayOf(uri)}}
	}
	for _, c := range []struct {
		what, authority string
		client          *tls.Config
		want            string // "" if the connection fails
	}{
		{"a member", chatHost, r.client("home", r.home, chatHost), "200 chat"},
		{"a member, with a port", chatHost + ":443", r.client("home", r.home, chatHost), "200 chat"},
		{"another member's pool", codeHost, r.client("south", r.south, codeHost), "200 code"},
		{"no certificate", chatHost, r.client("", nil, chatHost), ""},
		{"another CA, same ID", chatHost, r.client("home", stranger, chatHost), ""},
		{"another member's CA for this one's ID", chatHost, r.client("home", r.south, chatHost), ""},
		{"a member's CA for the trust domain of no member", chatHost, r.client("mars", r.home, chatHost), ""},
		{"this cluster's own Gateway", chatHost, r.client("west", r.west, chatHost), ""},
		{"a member's control plane", chatHost, custom(r.home, "spiffe://home/penstock"), ""},
		{"below the Gateways' ID", chatHost, custom(r.home, "spiffe://home/gateway/x"), ""},
		{"a server name outside", chatHost, r.client("home", r.home, "chat.example"), ""},
		{"a pool of another cluster", chatHost, r.client("home", r.home, "chat.team-a.east.pool.penstock"), ""},
		{"no server name", chatHost, r.client("home", r.home, ""), ""},
		{"a pool that is not for it", codeHost, r.client("home", r.home, codeHost), "403 "},
		{"an authority that is no pool", "none.team-a.west.pool.penstock",
			r.client("home", r.home, "none.team-a.west.pool.penstock"), "403 "},
		{"an authority of this gateway's clients", "unknown.example", r.client("home", r.home, chatHost), "403 "},
		{"server name of its own pool, authority of another", codeHost, r.client("home", r.home, chatHost), "403 "},
		{"server name of another pool, authority of its own", chatHost, r.client("home", r.home, codeHost), "403 "},
		{"both are its own, and differ", codeHost, r.client("south", r.south, chatHost), "403 "},
	} {
		a, err := r.ask(c.client, c.authority, nil)
		got := ""
		if err == nil {
			got = fmt.Sprint(a.status, " ", a.pod)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q: %s %v", c.what, got, c.want, a, err)
		}
	}
	if hits := r.code.hits.Load(); hits != 1 {
		t.Errorf("pool code got %d requests, want that of member south alone", hits)
	}
	old := r.client("home", r.home, chatHost)
	old.MaxVersion = tls.VersionTLS12
	if a, err := r.ask(old, chatHost, nil); err == nil {
		t.Errorf("TLS 1.2 is answered %s, want an error", a)
	}
	plain, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	_ = plain.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(plain, "GET / HTTP/1.1\r\nHost: "+chatHost+"\r\n\r\n")
	if text, _ := io.ReadAll(plain); strings.HasPrefix(string(text), "HTTP") {
		t.Errorf("a request in cleartext is answered %s, want no answer", text)
	}
}

// A pod receives the client's path, host and headers, without headers that the sender has forged.
func TestPeerListener_RestoresTheClientsRequestAndStopsHeaders(t *testing.T) {
	t.Parallel()
	r := newPeerRig(t)
	forged := http.Header{
		"X-Gateway-Destination-Endpoint": {r.code.address.String()}, "X-Req-Tokens-Key": {"another"},
		"X-Penstock-Pool": {"team-a/code"}, "X-Penstock-Lease": {"1"},
		"Penstock-Peer-Refused": {"1"}, "Penstock-Peer-Other": {"1"}, "X-Envoy-Max-Retries": {"9"},
		"X-Envoy-Original-Host": {"x"}, "X-Gateway-Model-Name": {"x"},
		"X-Prefiller-Host-Port": {"192.0.2.1:1"}, "X-Forwarded-Client-Cert": {"URI=spiffe://other"},
		"Penstock-Peer-Authority": {"api.example:8080"}, "X-Forwarded-For": {"192.0.2.9"}, "X-Request-Id": {"one"},
		"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
	}
	a, err := r.ask(r.client("home", r.home, chatHost), chatHost, forged)
	if err != nil || a.pod != "chat" {
		t.Fatalf("got %s %v, want pod chat", a, err)
	}
	got := r.chat.last.Load()
	if got.Host != "api.example:8080" || got.URL.RequestURI() != "/v1/chat/completions?x=%2F" {
		t.Errorf(`the pod is asked for %s at %s, want "api.example:8080" and %q`,
			got.URL.RequestURI(), got.Host, "/v1/chat/completions?x=%2F")
	}
	// The pod receives the picker's endpoint header, and the client's other headers.
	for name, want := range map[string]string{"X-Gateway-Destination-Endpoint": r.chat.address.String(),
		"X-Forwarded-For": "192.0.2.9", "X-Request-Id": "one", "Traceparent": forged.Get("Traceparent")} {
		if value := got.Header.Get(name); value != want {
			t.Errorf("the pod receives %s: %q, want %q", name, value, want)
		}
	}
	for name := range got.Header {
		for _, prefix := range []string{"Penstock-Peer-", "X-Penstock-", "X-Req-Tokens-Key", "X-Envoy-Max",
			"X-Envoy-Original-Host", "X-Gateway-Model", "X-Prefiller", "X-Forwarded-Client-Cert"} {
			if strings.HasPrefix(name, prefix) {
				t.Errorf("the pod receives %s: %s, want it removed", name, got.Header.Get(name))
			}
		}
	}
}

// Penstock-Peer-Refused marks answers to requests that no pod has started. Answers of pods never
// have the header, even if the pod sets it.
func TestPeerListener_MarksWhatNoPodHasBegun(t *testing.T) {
	t.Parallel()
	r := newPeerRig(t)
	for host, want := range map[string]string{"full": "503 1", "busy": "503 ", "chat": "200 "} {
		host = model.PeerAuthority("team-a", host, "west")
		a, err := r.ask(r.client("home", r.home, host), host, http.Header{"Penstock-Peer-Refused": {"1"}})
		if got := fmt.Sprint(a.status, " ", a.header.Get("Penstock-Peer-Refused")); err != nil || got != want {
			t.Errorf("%s: %q, want %q: %s %v", host, got, want, a, err)
		}
		for name := range a.header {
			if strings.HasPrefix(name, "X-Penstock-") || strings.HasPrefix(name, "X-Gateway-Destination") {
				t.Errorf("%s: the member receives %s, want it removed", host, name)
			}
		}
	}
}

// A request goes through Gateways of two clusters. The pod receives the client's host, and the
// client receives no Penstock-Peer headers. A gateway with another cluster's name gets no request.
func TestPeerListener_GatewayOfAMemberUsesIt(t *testing.T) {
	t.Parallel()
	r := newPeerRig(t)
	a := r.post(t, "west", []byte("{}"))
	if a.status != 200 || a.pod != "chat" {
		t.Fatalf("got %s, want 200 from chat", a)
	}
	if got := r.chat.last.Load(); got.Host != "west" || got.Header.Get("Penstock-Peer-Authority") != "" {
		t.Errorf("the pod is asked for %s, with %v; want west, without Penstock-Peer-Authority", got.Host, got.Header)
	}
	for name := range a.header {
		if strings.HasPrefix(name, "Penstock-Peer-") {
			t.Errorf("the client receives %s, want it removed", name)
		}
	}
	hits := r.chat.hits.Load()
	if a := r.post(t, "east", []byte("{}")); a.status != 503 || r.chat.hits.Load() != hits {
		t.Errorf("a gateway of another cluster is asked: got %s, want 503, and no request at the pod", a)
	}
}

// If clients must send a PROXY protocol header, members may connect with or without the header.
func TestPeerListener_AdmitsMembersBehindAProxyProtocol(t *testing.T) {
	t.Parallel()
	// newPeerRigOf waits for the answer to a request without the header.
	r := newPeerRigOf(t, model.Edge{ProxyProtocol: v1alpha1.ProxyProtocolRequired})
	tr := &http.Transport{TLSClientConfig: r.client("home", r.home, chatHost),
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err == nil {
				_, err = io.WriteString(c, "PROXY TCP4 192.0.2.7 192.0.2.8 1234 443\r\n")
			}
			return c, err
		}}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequest("POST", fmt.Sprintf("https://127.0.0.1:%d/v1/chat/completions", r.port),
		strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = chatHost
	resp, err := (&http.Client{Transport: tr, Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%d, want %d", resp.StatusCode, http.StatusOK)
	}
}

// caller returns the caller that the picker of pool chat receives. The pod must receive no caller.
func (r *peerRig) caller(t *testing.T, what string, header http.Header, send func(http.Header) (answer, error)) string {
	t.Helper()
	var a answer
	header.Set("X-Test", what)
	// On a busy machine, the gate may exceed its timeout.
	r.envoy.Wait(what+" is answered", func() (ok bool) {
		var err error
		a, err = send(header)
		return err == nil && a.status == 200
	})
	for name, values := range a.header {
		if strings.HasPrefix(name, "Echo-X-Penstock-") || strings.HasPrefix(name, "Echo-Penstock-Peer-") {
			t.Errorf("%s: the pod receives %s: %s, want it removed", what, name, values)
		}
	}
	var headers map[string]string
	r.envoy.Wait("the picker's call ends", func() bool {
		for _, call := range r.picker.seen("chat") {
			if call.headers["x-test"] == what {
				headers = call.headers
			}
		}
		return headers != nil
	})
	return headers[callerHeader]
}

// A gated route sends its caller to another cluster. The peer listener accepts a caller only from a
// member that the ClusterSet trusts, and never from a client.
func TestPeerListener_BelievesCallersOfMembersThatTheClusterSetBelieves(t *testing.T) {
	t.Parallel()
	r := newPeerRig(t)
	r.healthy(model.OurGate.String())
	for _, c := range []struct {
		what, cluster string
		header        http.Header
		want          string
	}{
		{"a member", "home", http.Header{"Penstock-Peer-Caller": {"ns/alice"}, "Penstock-Peer-Groups": {"a,b%2Cc"}},
			"home:ns/alice"},
		{"a member that is not believed", "south", http.Header{"Penstock-Peer-Caller": {"ns/alice"}}, ""},
		{"nothing stated", "home", http.Header{"X-Penstock-Caller": {"ns/root"}, "Penstock-Peer-Groups": {"a"}}, ""},
		{"two callers", "home", http.Header{"Penstock-Peer-Caller": {"ns/alice", "ns/bob"}}, ""},
		{"too long", "home", http.Header{"Penstock-Peer-Caller": {strings.Repeat("x", 513)}}, ""},
		{"the longest", "home", http.Header{"Penstock-Peer-Caller": {strings.Repeat("x", 512)}},
			"home:" + strings.Repeat("x", 512)},
		{"two callers in one value", "home", http.Header{"Penstock-Peer-Caller": {"ns/alice,ns/bob"}}, ""},
		{"no UTF-8", "home", http.Header{"Penstock-Peer-Caller": {"ns/\xff"}}, ""},
		{"a quote", "home", http.Header{"Penstock-Peer-Caller": {`ns/a"b`}}, ""},
		{"groups without UTF-8", "home", http.Header{"Penstock-Peer-Caller": {"ns/alice"},
			"Penstock-Peer-Groups": {"%ff,%00,%,%C3%A9,\xff," + strings.Repeat("g", 129)}}, "home:ns/alice"},
		{"groups beyond the limit", "home", http.Header{"Penstock-Peer-Caller": {"ns/alice"},
			"Penstock-Peer-Groups": {strings.Repeat("g,", 513)}}, "home:ns/alice"},
	} {
		ca := map[string]*authority{"home": r.home, "south": r.south}[c.cluster]
		got := r.caller(t, c.what, c.header, func(header http.Header) (answer, error) {
			return r.ask(r.client(c.cluster, ca, chatHost), chatHost, header)
		})
		if got != c.want {
			t.Errorf("%s: the caller is %q, want %q", c.what, got, c.want)
		}
	}
	for host, want := range map[string]string{"gated": "home:ns/alice", "gated-hop": "home:ns/alice", "west": "",
		"open-hop": ""} {
		forged := http.Header{"Penstock-Peer-Caller": {"ns/root"}, "X-Penstock-Caller": {"ns/root"}}
		got := r.caller(t, host, forged, func(header http.Header) (answer, error) {
			req := r.request("POST", host, "/v1/chat/completions", []byte("{}"))
			req.Header = header
			return r.do(req)
		})
		if got != want {
			t.Errorf("%s: the caller is %q, want %q", host, got, want)
		}
	}
}
