package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// testMember has the certificates of a member, but no process.
type testMember struct {
	t      *testing.T
	name   string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	bundle string
}

func newTestMember(t *testing.T, name string) *testMember {
	t.Helper()
	return newTestMemberBy(t, name, name)
}

func newTestMemberBy(t *testing.T, name, authority string) *testMember {
	t.Helper()
	m := &testMember{t: t, name: name}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: authority},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := m.sign(template)
	m.cert, _ = x509.ParseCertificate(der.Certificate[0])
	m.key = der.PrivateKey.(*ecdsa.PrivateKey)
	m.bundle = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.cert.Raw}))
	return m
}

func (m *testMember) sign(template *x509.Certificate) tls.Certificate {
	m.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		m.t.Fatal(err)
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if m.cert != nil {
		parent, signer = m.cert, m.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		m.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (m *testMember) gateway(cluster string) tls.Certificate {
	return m.sign(&x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), KeyUsage: x509.KeyUsageDigitalSignature,
		URIs:        []*url.URL{{Scheme: "spiffe", Host: cluster, Path: "/gateway"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	})
}

// member returns m's ClusterSet entry, with the CAs of m and more. Nothing listens at its address.
func (m *testMember) member(more ...*testMember) string {
	text := m.bundle
	for _, o := range more {
		text += o.bundle
	}
	return fmt.Sprintf("- name: %s\n  peer:\n    address: 127.0.0.1:%d\n    bundle: |\n      %s\n", m.name, len(m.name),
		strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n      "))
}

func peerListenerYAML(port int) string { return fmt.Sprintf("  peerListener: {port: %d}\n", port) }

func withPeers(set string, port int) string {
	return strings.Replace(set, "spec:\n", "spec:\n"+peerListenerYAML(port), 1)
}

// askPeer sends a chat completion to a peer listener. server is the TLS server name, host the
// authority.
func askPeer(t *testing.T, port int, certificate tls.Certificate, server, host string, header http.Header) (reply,
	error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		fmt.Sprintf("https://127.0.0.1:%d/v1/chat/completions", port), strings.NewReader(question))
	if err != nil {
		t.Fatal(err)
	}
	req.Host, req.Header = host, header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("content-type", "application/json")
	c := client()
	tr := c.Transport.(*http.Transport)
	tr.ForceAttemptHTTP2, tr.TLSClientConfig = true,
		&tls.Config{ServerName: server, InsecureSkipVerify: true, Certificates: []tls.Certificate{certificate}}
	return do(c, req)
}

// keepAsking calls ask repeatedly until end is called. end returns ask's first error.
func keepAsking(ask func() error) (end func() error) {
	ended, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(failed)
		for n := 0; ; n++ {
			select {
			case <-ended:
				if n == 0 {
					failed <- errors.New("no request")
				}
				return
			default:
			}
			if err := ask(); err != nil {
				failed <- fmt.Errorf("request %d: %w", n, err)
				return
			}
		}
	}()
	return func() error { close(ended); return <-failed }
}

// A member's Gateway reaches the pools that are exported to this member, and gets 403 for others.
func TestPeerListener_ServesMembersTheExportedPoolsAlone(t *testing.T) {
	t.Parallel()
	port, peer := freePort(t), freePort(t)
	home, south := newTestMember(t, "home"), newTestMember(t, "south")
	files := chatFiles(port, serverNamed(t, "east-chat"))
	route := files["route.yaml"]
	files["set.yaml"] = withPeers(clusterSetYAML("east", home.member(), south.member()), peer)
	files["pool.yaml"] = exportedPool(exportAnnotation +
		", inference.networking.x-k8s.io/export-mode: ParentMode, penstock.dev/export-to: home")
	files["own.yaml"] = poolYAML("own") + "---\n" + serversYAML("own", serverNamed(t, "east-own")) +
		"---\n" + routeYAML("own", "/own", toPool("own"))
	east := up(t, files, "--members-listen", "127.0.0.1:0", "--drain-time", "1s")
	const chatHost, ownHost = "chat.default.east.pool.penstock", "own.default.east.pool.penstock"
	at := home.gateway("home")
	answered := func(what string, want int, certificate tls.Certificate, server, host string) {
		t.Helper()
		eventually(t, what, func() error {
			got, err := askPeer(t, peer, certificate, server, host, nil)
			if want == 0 && err != nil {
				return nil
			}
			if err != nil || got.status != want ||
				want == http.StatusOK && got.header.Get("x-served-by") != "east-chat" {
				return fmt.Errorf("%d %s %v, want %d; status:\n%s", got.status, got.body, err, want,
					east.penstock("status"))
			}
			return nil
		})
	}
	answered("a member", http.StatusOK, at, chatHost, chatHost)
	answered("a member that it is not exported to", http.StatusForbidden, south.gateway("south"), chatHost, chatHost)
	answered("a pool that is not exported", http.StatusForbidden, at, ownHost, ownHost)
	answered("its server name alone", http.StatusForbidden, at, chatHost, ownHost)
	answered("no member", 0, newTestMember(t, "home").gateway("home"), chatHost, chatHost)
	answered("a member in another's name", 0, south.gateway("home"), chatHost, chatHost)

	second := newTestMember(t, "home")
	end := keepAsking(func() error {
		got, err := askPeer(t, peer, at, chatHost, chatHost, nil)
		if err == nil && got.status != http.StatusOK {
			err = fmt.Errorf("got %d %s, want %d", got.status, got.body, http.StatusOK)
		}
		return err
	})
	east.write("set.yaml", withPeers(clusterSetYAML("east", home.member(second), south.member()), peer))
	answered("the next authority of a member", http.StatusOK, second.gateway("home"), chatHost, chatHost)
	east.write("pool.yaml", exportedPool(exportAnnotation+", inference.networking.x-k8s.io/export-mode: ParentMode"))
	answered("exported to all", http.StatusOK, south.gateway("south"), chatHost, chatHost)
	east.write("set.yaml", withPeers(clusterSetYAML("east", home.member(second)), peer))
	answered("a member that has left", 0, south.gateway("south"), chatHost, chatHost)
	if err := end(); err != nil {
		t.Error(err)
	}
	east.write("pool.yaml", poolYAML("chat"))
	answered("withdrawn", http.StatusForbidden, at, chatHost, chatHost)
	east.write("pool.yaml", files["pool.yaml"])
	answered("exported again", http.StatusOK, at, chatHost, chatHost)
	east.remove("route.yaml")
	answered("no Gateway routes to it", http.StatusForbidden, at, chatHost, chatHost)
	east.write("route.yaml", route)
	answered("routed again", http.StatusOK, at, chatHost, chatHost)
	east.write("set.yaml", clusterSetYAML("east", home.member()))
	answered("no peer listener", 0, at, chatHost, chatHost)
	east.write("set.yaml", withPeers(clusterSetYAML("east", home.member()), port))
	eventually(t, "the port of the Gateway's own listener", func() error {
		if text := east.penstock("status"); !strings.Contains(text,
			fmt.Sprintf("listener http has port %d, the port of the ClusterSet's peerListener", port)) {
			return fmt.Errorf("status: got %s, want that listener http has the port %d of the peerListener", text, port)
		}
		return nil
	})
	answers(t, local(port), http.StatusOK)
}

// All members' CAs are in one TLS secret, which Envoy NACKs as a whole. One CA that Envoy cannot
// read must not cut off other members.
func TestPeerListener_MemberWhoseCertificateEnvoyCannotReadHarmsNoOther(t *testing.T) {
	t.Parallel()
	port, peer := freePort(t), freePort(t)
	home, south := newTestMember(t, "home"), newTestMemberBy(t, "south", "south \uffff")
	files := chatFiles(port, serverNamed(t, "east-chat"))
	files["set.yaml"] = withPeers(clusterSetYAML("east", home.member(), south.member()), peer)
	files["pool.yaml"] = exportedPool(exportAnnotation + ", inference.networking.x-k8s.io/export-mode: ParentMode")
	east := up(t, files, "--members-listen", "127.0.0.1:0", "--drain-time", "1s")
	const host = "chat.default.east.pool.penstock"
	eventually(t, "the other member is served by an Envoy that has just started", func() error {
		got, err := askPeer(t, peer, home.gateway("home"), host, host, nil)
		if err != nil || got.status != http.StatusOK {
			return fmt.Errorf("got %d %s %v, want 200; status:\n%s", got.status, got.body, err, east.penstock("status"))
		}
		return nil
	})
	if got, err := askPeer(t, peer, south.gateway("south"), host, host, nil); err == nil &&
		got.status == http.StatusOK {
		t.Error("the member whose certificate does not vouch for it is served")
	}
	text := east.penstock("status")
	for _, want := range []string{
		"spec.members[1].peer.bundle", "member south: ", "cannot be read by Envoy",
		"run `penstock clusters show` there",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("status: got\n%s\nwant %q", text, want)
		}
	}
}

// Members send requests to the peer listener with the client's authority. They are served even if
// the exporter's route has other hostnames.
func TestPeerListener_MembersUseItInParentMode(t *testing.T) {
	t.Parallel()
	port, gateway, peer := freePort(t), freePort(t), freePort(t)
	files := chatFiles(gateway, serverNamed(t, "east-1"))
	files["route.yaml"] = strings.Replace(files["route.yaml"], "spec:\n", "spec:\n  hostnames: [only.example]\n", 1)
	files["set.yaml"] = withPeers(clusterSetYAML("east"), peer)
	files["pool.yaml"] = exportedPool(exportAnnotation + ", inference.networking.x-k8s.io/export-mode: ParentMode")
	east := up(t, files, "--members-listen", "127.0.0.1:0")
	south := newTestMember(t, "south")
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "set.yaml": clusterSetYAML("here", east.show()),
		"route.yaml": routeYAML("far", "/", toImport("chat")),
	}, "--members-listen", "127.0.0.1:0")
	east.write("set.yaml", withPeers(clusterSetYAML("east", here.show(), south.member()), peer))
	served := func(what string, want int) {
		t.Helper()
		eventually(t, what, func() error {
			got, err := chat(t.Context(), local(port))
			if err != nil || got.status != want || want == http.StatusOK && got.header.Get("x-served-by") != "east-1" {
				return fmt.Errorf("%d %s %v, want %d; status here:\n%s\nin the other cluster:\n%s", got.status,
					got.body, err, want, here.penstock("status"), east.penstock("status"))
			}
			return nil
		})
	}
	served("through the peer listener", http.StatusOK)
	if text := here.penstock("explain", local(port)+"/v1/chat/completions"); !strings.Contains(text,
		fmt.Sprintf("127.0.0.1:%d", peer)) || strings.Contains(text, fmt.Sprintf("127.0.0.1:%d", gateway)) {
		t.Errorf("explain: got %s, want the port %d, and not %d", text, peer, gateway)
	}
	got, err := chat(t.Context(), local(port))
	if err != nil || got.header.Get("penstock-peer-refused") != "" {
		t.Errorf("got %d %v %v, want no penstock-peer-refused", got.status, got.header, err)
	}
	list, err := client().Get(local(port) + "/v1/models")
	if err != nil || list.StatusCode != http.StatusOK {
		t.Errorf("the list of models: got %v %v, want 200", list, err)
	} else {
		_ = list.Body.Close()
	}

	east.write("pool.yaml",
		exportedPool(
			exportAnnotation+", inference.networking.x-k8s.io/export-mode: ParentMode, penstock.dev/export-to: south"))
	served("exported to another member", http.StatusInternalServerError)
	east.write("pool.yaml", files["pool.yaml"])
	served("exported to all", http.StatusOK)
	east.write("route.yaml", routeYAML("chat", "/", toPool("chat")))
	east.write("set.yaml", clusterSetYAML("east", here.show(), south.member()))
	eventually(t, "without a peer listener, the Gateway's own port", func() error {
		if text := here.penstock("explain", local(port)+"/v1/chat/completions"); !strings.Contains(text,
			fmt.Sprintf("127.0.0.1:%d", gateway)) {
			return fmt.Errorf("explain: got %s, want the port %d", text, gateway)
		}
		return nil
	})
	served("at the Gateway's own port", http.StatusOK)
	east.write("set.yaml", withPeers(clusterSetYAML("east", here.show(), south.member()), peer))
	eventually(t, "the peer listener again", func() error {
		if text := here.penstock("explain", local(port)+"/v1/chat/completions"); !strings.Contains(text,
			fmt.Sprintf("127.0.0.1:%d", peer)) {
			return fmt.Errorf("explain: got %s, want the port %d", text, peer)
		}
		return nil
	})
	served("through it", http.StatusOK)
}
