package attacks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/parties"
	"github.com/penstock-project/penstock/conformance/promises/process/processtest"
)

const gatewayPath = "/gateway"

// withPeerListener starts a set that exports default/chat only to the member good, through a peer
// listener. Its pool default/secret is not exported.
func withPeerListener(t *testing.T) (s *set, address string) {
	t.Helper()
	port := processtest.Port(t)
	s = startSet(t, fmt.Sprintf("  peerListener: {port: %d}\n", port), nil)
	s.Write("site.yaml", strings.Replace(s.objects(), "kind: InferencePool\nmetadata: {name: chat}",
		"kind: InferencePool\nmetadata: {name: chat, annotations: {inference.networking.x-k8s.io/export: ClusterSet, "+
			"inference.networking.x-k8s.io/export-mode: ParentMode, penstock.dev/export-to: good}}", 1))
	s.Write("secret.yaml", poolObjects("secret", "/secret", []string{"gw"}, at(s.server)))
	return s, local(port)
}

const chatAuthority = "chat.default.east.pool.penstock"

// asMember is a client of a peer listener with the certificate of a member's Gateway. Each request
// has its own connection.
func asMember(certificate tls.Certificate, server string) *http.Transport {
	return &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
		// the attacker trusts every server
		MinVersion: tls.VersionTLS13, ServerName: server, InsecureSkipVerify: true,
		Certificates: []tls.Certificate{certificate},
	}}
}

func post(ctx context.Context, c *http.Transport, address, authority string, header http.Header, body io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+"/v1/chat/completions", body)
	if err != nil {
		return err
	}
	req.Host = authority
	maps.Copy(req.Header, header)
	resp, err := c.RoundTrip(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("answered %s", resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

func counted(server *http.Handler) *atomic.Int64 {
	var n atomic.Int64
	next := *server
	*server = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			n.Add(1)
		}
		next.ServeHTTP(w, r)
	})
	return &n
}

// reachesOnePool checks that the listener accepts no other certificate, and that the member reaches
// no other authority.
func (s *set) reachesOnePool(t *testing.T, member *http.Transport, address string) {
	t.Helper()
	strangers := parties.NewCA(t)
	for what, c := range map[string]*http.Transport{
		"a stranger with the member's ID": asMember(strangers.Identity("good", gatewayPath, time.Hour), chatAuthority),
		"the member's control plane":      asMember(s.good.Identity("good", "/penstock", time.Hour), chatAuthority),
		"an expired certificate":          asMember(s.good.Identity("good", gatewayPath, -time.Minute), chatAuthority),
	} {
		if err := post(t.Context(), c, address, chatAuthority, nil, strings.NewReader("{}")); err == nil {
			t.Errorf("%s is answered, want an error", what)
		}
	}
	for _, authority := range []string{"good.default.east.pool.penstock", "good.default.good.pool.penstock",
		"hop.default.import.good", "hops", "default/gw", local(s.gateway)} {
		if err := post(t.Context(), member, address, authority, nil, strings.NewReader("{}")); err == nil {
			t.Errorf("the member reaches %s, want an error", authority)
		}
	}
}

func TestPeerListener_HostileMemberHoldsUpNoOther(t *testing.T) {
	s, address := withPeerListener(t)
	member := asMember(s.good.Identity("good", gatewayPath, time.Hour), chatAuthority)
	s.Eventually("the member reaches the pool", func() error {
		return post(t.Context(), member, address, chatAuthority, nil, strings.NewReader("{}"))
	})
	s.reachesOnePool(t, member, address)
	const secret = "secret.default.east.pool.penstock"
	s.Eventually("the other pool serves", func() error { return s.ask(http.MethodPost, "/secret", "{}") })
	own := s.good.Identity("good", gatewayPath, time.Hour)
	for what, c := range map[string]struct{ server, authority string }{
		"a pool that is not exported to it":   {secret, secret},
		"one by the server name of another":   {chatAuthority, secret},
		"its pool by another's server name":   {secret, chatAuthority},
		"its pool by a server name that none": {"chat.example", chatAuthority},
	} {
		if err := post(t.Context(), asMember(own, c.server), address, c.authority, nil,
			strings.NewReader("{}")); err == nil {
			t.Errorf("the member reaches %s, want an error", what)
		}
	}
	theirs, ours := counted(&s.good.server.Config.Handler), counted(&s.server.Config.Handler)
	forged := s.forged()
	forged.Set("penstock-peer-authority", "good.example") // a member may send this header with one host
	if err := post(t.Context(), member, address, chatAuthority, forged, strings.NewReader("{}")); err != nil ||
		ours.Load() != 1 || theirs.Load() != 0 {
		t.Errorf("with forged headers: %v; %d requests reach this cluster's server, %d the other's, want 1 and 0", err,
			ours.Load(), theirs.Load())
	}
	traffic, peak, before := s.traffic(), s.peak(s.envoy), s.rss(s.envoy)
	idle, err := Idle(t.Context(), net.Dialer{}, address, 500)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	var sent, streams sync.WaitGroup
	var bodies []*io.PipeWriter
	for range 200 {
		body, writer := io.Pipe()
		bodies = append(bodies, writer)
		// ends early if the stream is reset
		sent.Go(func() { _, _ = io.Copy(writer, io.LimitReader(repeated("a"), 32<<20-1)) })
		streams.Go(func() {
			err := post(ctx, member, address, chatAuthority, nil, body)
			_ = body.CloseWithError(err)
		})
	}
	sent.Wait()
	for range 100 {
		if err := s.ask(http.MethodPost, "/v1/chat/completions", `{"model":"m"}`); err != nil {
			t.Errorf("a request of a client beside a member's stalled uploads: %v", err)
			break
		}
	}
	traffic.end()
	if most := peak(); most > 2.2*1024 {
		t.Errorf("Envoy had %.0f MiB before, and %.0f MiB at the peak, want at most %.0f", before, most, 2.2*1024)
	}
	end()
	for _, b := range bodies {
		_ = b.CloseWithError(errors.New("the attack has ended"))
	}
	streams.Wait()
	for _, c := range idle {
		_ = c.Close()
	}
	s.Eventually("the member is served again", func() error {
		return post(t.Context(), member, address, chatAuthority, nil, strings.NewReader("{}"))
	})
}

// forged returns headers that name a member or an endpoint, or that only gateways and pickers may
// send.
func (s *set) forged() http.Header {
	gateway, forged := at(s.good.server), http.Header{}
	for _, name := range []string{
		"x-gateway-destination-endpoint", "x-gateway-destination-endpoint-served",
		"x-gateway-destination-endpoint-subset", "x-penstock-pool", "x-penstock-lease", "x-penstock-spill",
		"x-penstock-last",
		"x-req-tokens-key", "penstock-peer-authority", "penstock-peer-refused", "penstock-peer-sender",
		"x-envoy-original-dst-host", "x-envoy-original-host", "x-forwarded-host",
	} {
		forged[http.CanonicalHeaderKey(name)] = []string{
			fmt.Sprintf("%s:%d", gateway.address, gateway.port), "envoy://hops/hop.default.import.good@good",
			"default/good", "good",
		}
	}
	return forged
}

// A client names a member or an endpoint in headers or in the authority, or sends a peer's headers.
// It is served like any other client.
func TestClusterSet_ClientNamesNoMemberAndNoHop(t *testing.T) {
	s, address := withPeerListener(t)
	member := asMember(s.good.Identity("good", gatewayPath, time.Hour), chatAuthority)
	s.Eventually("the member reaches the pool", func() error {
		return post(t.Context(), member, address, chatAuthority, nil, strings.NewReader("{}"))
	})
	theirs, ours := counted(&s.good.server.Config.Handler), counted(&s.server.Config.Handler)
	forged := s.forged()
	hosts := []string{"chat", chatAuthority, "good.default.good.pool.penstock", "hop.default.import.good@good",
		"hop.default.import.good", "hops", "members/default/good"}
	for _, host := range hosts {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://"+local(s.gateway)+"/v1/chat/completions", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Host, req.Header = host, forged.Clone()
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		for name := range resp.Header {
			if lower := strings.ToLower(name); strings.HasPrefix(lower, "penstock-peer-") ||
				strings.HasPrefix(lower, "x-penstock-") && lower != "x-penstock-reason" {
				t.Errorf("%s: the client receives %s, want it removed", host, name)
			}
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: got %s, %v, want 200", host, resp.Status, err)
		}
	}
	if theirs.Load() != 0 || ours.Load() != int64(len(hosts)) {
		t.Errorf("of %d requests, %d reached this cluster's server and %d the other cluster's, want 0 and %d",
			len(hosts), ours.Load(),
			theirs.Load(), int64(len(hosts)))
	}
}
