package envoy

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
)

// The server requires a client certificate. Its own certificate has a wildcard name and a URI.
func TestBackendTLSPolicy_VerifiesSANsAndPresentsTheGatewaysCertificate(t *testing.T) {
	t.Parallel()
	ca, clients := newAuthority(t), newAuthority(t)
	uri, err := url.Parse("spiffe://example/llm")
	if err != nil {
		t.Fatal(err)
	}
	_, _, pair := ca.pair(&x509.Certificate{DNSNames: []string{"*.pods.example"}, URIs: []*url.URL{uri},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	clientChain, clientKey, _ := clients.pair(&x509.Certificate{
		DNSNames: []string{"gateway.example"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(clients.pem)
	server := func(auth tls.ClientAuthType) netip.AddrPort {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Pod", "pod")
			if len(req.TLS.PeerCertificates) > 0 {
				w.Header().Set("Client", req.TLS.PeerCertificates[0].DNSNames[0])
			}
		}))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: auth, ClientCAs: roots}
		s.StartTLS()
		t.Cleanup(s.Close)
		return netip.MustParseAddrPort(s.Listener.Addr().String())
	}
	open, mutual := server(tls.NoClientCert), server(tls.RequireAndVerifyClientCert)
	r := newRig(t, closedPort(t))
	r.add(Secret(model.Secret{Name: "ca", CA: ca.pem}))
	r.add(Secret(model.Secret{Name: "client", Chain: clientChain, Key: clientKey}))
	want := map[string]string{}
	for i, c := range []struct {
		at   netip.AddrPort
		tls  model.UpstreamTLS
		want string
	}{
		{open, model.UpstreamTLS{SANs: []string{"a.pods.example"}}, "200 "},
		{open, model.UpstreamTLS{SANs: []string{"*.pods.example"}}, "200 "},
		{open, model.UpstreamTLS{SANs: []string{"*.example"}}, "503 "},
		{open, model.UpstreamTLS{SANs: []string{"a.b.pods.example"}}, "503 "},
		{open, model.UpstreamTLS{URIs: []string{"spiffe://example/llm"}}, "200 "},
		{open, model.UpstreamTLS{URIs: []string{"spiffe://example/other"}}, "503 "},
		{open, model.UpstreamTLS{URIs: []string{"spiffe://example/other"}, SANs: []string{"other", "a.pods.example"}},
			"200 "},
		{mutual, model.UpstreamTLS{SANs: []string{"a.pods.example"}, Certificate: "client"}, "200 gateway.example"},
		{mutual, model.UpstreamTLS{SANs: []string{"a.pods.example"}}, "503 "},
	} {
		name := fmt.Sprintf("c%d", i)
		c.tls.SNI, c.tls.Trust = "a.pods.example", "ca"
		r.cluster(model.Cluster{Name: named(name), Protocol: model.HTTP1, TLS: &c.tls}, endpoints(c.at)...)
		r.forward(name, backends(model.WeightedBackend{Cluster: named(name), Weight: 1}))
		want[name] = c.want
	}
	r.start()
	for host, w := range want {
		got := r.post(t, host, nil)
		if s := fmt.Sprint(got.status, " ", got.header.Get("Client")); s != w {
			t.Errorf("%s: want %q, got %q: %s", host, w, s, got)
		}
	}
}
