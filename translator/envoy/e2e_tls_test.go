package envoy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key, a.pem, _ = a.issue(&x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		Subject: pkix.Name{CommonName: "test"},
	})
	return a
}

func (a *authority) issue(c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, []byte, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(1)
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := c, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	rawKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return out, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: rawKey})
}

func (a *authority) server(names ...string) (chain, key []byte, pair tls.Certificate) {
	a.t.Helper()
	return a.pair(&x509.Certificate{DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
}

func (a *authority) pair(c *x509.Certificate) (chain, key []byte, pair tls.Certificate) {
	a.t.Helper()
	_, _, chain, key = a.issue(c)
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		a.t.Fatal(err)
	}
	return chain, key, pair
}

func TestHTTPSListener_AnswersOtherHostsWith421(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	r := newRig(t, closedPort(t))
	port := uint16(envoytest.FreePort(t))
	p := model.Port{Gateway: "ns/gw", Number: port, Addresses: []string{"127.0.0.1", "127.0.0.2"}}
	hosts := []string{"a.example", "b.example", "*.wild.example"}
	for _, host := range hosts {
		chain, key, _ := ca.server(host)
		secret := model.SecretName("ns", strings.TrimPrefix(host, "*."))
		r.add(Secret(model.Secret{Name: secret, Chain: chain, Key: key}))
		c := model.Chain{Name: model.ChainName(true, port, host), ServerName: host, TLS: true,
			Secrets: []string{secret}}
		for _, other := range hosts {
			if other != host {
				c.Misdirected = append(c.Misdirected, other)
			}
		}
		p.Chains = append(p.Chains, c)
		vh, err := VirtualHost(&model.VirtualHost{
			Chain: c.Name, Host: host, Routes: []model.Route{answers(host, prefix("/"))},
		})
		if err != nil {
			t.Fatal(err)
		}
		r.add(inOneBlock(c, vh))
	}
	r.add(Listener(r.cfg, p))
	r.start()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.pem)
	for _, c := range []struct {
		address, sni, host string
		http2              bool
		want               string
	}{
		{"127.0.0.1", "a.example", "a.example", false, "200 a.example"},
		{"127.0.0.1", "a.example", "a.example", true, "200 a.example"},
		{"127.0.0.2", "b.example", "b.example", true, "200 b.example"},
		{"127.0.0.1", "x.wild.example", "x.wild.example", true, "200 *.wild.example"},
		{"127.0.0.1", "a.example", "b.example", true, "421 "}, {"127.0.0.1", "a.example", "b.example", false, "421 "},
		{"127.0.0.1", "a.example", "y.wild.example", true, "421 "},
		{"127.0.0.1", "x.wild.example", "a.example:443", true, "421 "},
		{"127.0.0.1", "a.example", "unknown.example", true, "404 "},
	} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: c.sni},
			ForceAttemptHTTP2: c.http2}
		req, err := http.NewRequest("GET", fmt.Sprintf("https://%s:%d/", c.address, port), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = c.host
		var got string
		// The secret may arrive after the listener.
		r.envoy.Wait(fmt.Sprintf("%+v", c), func() bool {
			resp, err := tr.RoundTrip(req)
			if err != nil {
				got = err.Error()
				return false
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			got = fmt.Sprint(resp.StatusCode, " ", string(body))
			if (resp.ProtoMajor == 2) != c.http2 {
				t.Errorf("%+v: came over %s, want HTTP/2: %t", c, resp.Proto, c.http2)
			}
			return true
		})
		tr.CloseIdleConnections()
		if got != c.want {
			t.Errorf("%+v: got %s, want %s", c, got, c.want)
		}
	}
}

func TestBackendTLSPolicy_VerifiesBackendsAndSparesHops(t *testing.T) {
	t.Parallel()
	ca, stranger := newAuthority(t), newAuthority(t)
	_, _, pair := ca.server("pods.example")
	secure := &pod{name: "secure"}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Pod", "secure")
		w.Header().Set("Sni", req.TLS.ServerName)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.StartTLS()
	t.Cleanup(s.Close)
	secure.address = netip.MustParseAddrPort(s.Listener.Addr().String())
	b1 := startPod(t, "b1", 200)
	p := startPicker(t,
		map[string]script{"secure": {endpoints: secure.address.String()}, "full": {status: 503},
			"b": {endpoints: b1.address.String()}})
	external := startPicker(t, map[string]script{"": {endpoints: secure.address.String(), duplex: true}},
		grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	r := newRig(t, p.address)
	hop := r.poolB(b1)
	r.add(Secret(model.Secret{Name: "ca", CA: ca.pem}))
	r.add(Secret(model.Secret{Name: "stranger", CA: stranger.pem}))
	want := map[string]string{}
	for name, c := range map[string]struct {
		tls  model.UpstreamTLS
		want string
	}{
		"trusted": {model.UpstreamTLS{SNI: "pods.example", Trust: "ca", SANs: []string{"pods.example"}},
			"200 secure pods.example"},
		"no-san-asked": {model.UpstreamTLS{SNI: "pods.example", Trust: "ca"}, "200 secure pods.example"},
		"wrong-san":    {model.UpstreamTLS{SNI: "pods.example", Trust: "ca", SANs: []string{"other.example"}}, "503  "},
		"wrong-ca": {model.UpstreamTLS{SNI: "pods.example", Trust: "stranger", SANs: []string{"pods.example"}},
			"503  "},
		"system-roots": {model.UpstreamTLS{SNI: "pods.example", SANs: []string{"pods.example"}}, "503  "},
		"insecure":     {model.UpstreamTLS{Insecure: true}, "200 secure "},
	} {
		r.cluster(model.Cluster{Name: named(name), Protocol: model.HTTP1, TLS: &c.tls}, endpoints(secure.address)...)
		r.forward(name, backends(model.WeightedBackend{Cluster: named(name), Weight: 1}))
		want[name] = c.want
	}
	mixed := &model.UpstreamTLS{SNI: "pods.example", Trust: "ca"}
	r.cluster(model.Cluster{Name: named("mixed"), Protocol: model.HTTP1, TLS: mixed, Fallback: model.FallbackSpill,
		Hops: true},
		append(endpoints(secure.address), model.Endpoint{Hop: hop})...)
	r.forward("mixed-pod", backends(spilling(pool("mixed", "secure", model.BodyBuffered), hop)))
	r.forward("mixed-hop", backends(spilling(pool("mixed", "full", model.BodyBuffered), hop)))
	want["mixed-pod"], want["mixed-hop"] = "200 secure pods.example", "200 b1 "
	r.cluster(model.Cluster{Name: named("external"), Protocol: model.GRPC, HealthService: extProcService,
		TLS: &model.UpstreamTLS{Insecure: true}}, endpoints(external.address)...)
	duplex := pool("mixed", "", model.BodyDuplex)
	duplex.Picker.Cluster = named("external")
	r.forward("external", backends(duplex))
	want["external"] = "200 secure pods.example"
	r.start()
	r.envoy.Wait("the external picker is healthy", func() bool {
		return r.envoy.Stats("external.membership_healthy")["cluster.external.membership_healthy"] == 1
	})
	for host, w := range want {
		got := r.post(t, host, []byte("{}"))
		if s := fmt.Sprint(got.status, " ", got.pod, " ", got.header.Get("Sni")); s != w {
			t.Errorf("%s: want %q, got %q: %s", host, w, s, got)
		}
	}
}
