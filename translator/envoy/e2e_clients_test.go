package envoy

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

func TestFrontendTLS_VerifiesClientCertificates(t *testing.T) {
	t.Parallel()
	ca, clients, strangers := newAuthority(t), newAuthority(t), newAuthority(t)
	chain, key, _ := ca.server("gw.example")
	uri, err := url.Parse("spiffe://example/ali")
	if err != nil {
		t.Fatal(err)
	}
	client := func(a *authority) *tls.Certificate {
		_, _, pair := a.pair(&x509.Certificate{DNSNames: []string{"ali.example"}, URIs: []*url.URL{uri},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		return &pair
	}
	known, stranger := client(clients), client(strangers)
	a := startPod(t, "a", 200)
	r := newRig(t, closedPort(t))
	r.add(Secret(model.Secret{Name: "cert", Chain: chain, Key: key}))
	r.add(Secret(model.Secret{Name: "clients", CA: clients.pem}))
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1}, endpoints(a.address)...)
	ports := map[string]uint16{}
	for name, validation := range map[string]*model.ClientValidation{
		"open": nil, "valid": {Trust: "clients"}, "fallback": {Trust: "clients", Optional: true},
	} {
		port := uint16(envoytest.FreePort(t))
		ports[name] = port
		c := model.Chain{Name: model.ChainName(true, port, "*"), TLS: true, Secrets: []string{"cert"},
			Clients: validation}
		vh, err := VirtualHost(&model.VirtualHost{Chain: c.Name, Host: "*",
			Routes: []model.Route{{Name: "r", Match: prefix("/"), Action: &model.Action{
				Forward: &model.Forward{Backends: []model.WeightedBackend{{Cluster: named("a"), Weight: 1}}}}}}})
		if err != nil {
			t.Fatal(err)
		}
		r.add(inOneBlock(c, vh))
		r.add(
			Listener(r.cfg,
				model.Port{Gateway: "ns/gw", Number: port, Addresses: []string{"127.0.0.1"}, Chains: []model.Chain{c}}))
	}
	r.start()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.pem)
	for _, c := range []clientCase{
		{"open", "anonymous", nil, "200 "}, {"open", "known", known, "200 "},
		{"valid", "anonymous", nil, "denied"}, {"valid", "stranger", stranger, "denied"},
		{"valid", "known", known, "200 uri,dns"},
		{"fallback", "anonymous", nil, "200 "}, {"fallback", "stranger", stranger, "200 cert,uri,dns"},
		{"fallback", "known", known, "200 cert,uri,dns"},
	} {
		c.check(t, r, roots, ports[c.port])
	}
}

type clientCase struct {
	port, who string
	cert      *tls.Certificate
	want      string // status, and the headers about the client that the backend receives
}

func (c *clientCase) check(t *testing.T, r *rig, roots *x509.CertPool, port uint16) {
	config := &tls.Config{RootCAs: roots, ServerName: "gw.example"}
	if c.cert != nil { // sent even if the server does not announce the certificate's CA
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return c.cert, nil
		}
	}
	tr := &http.Transport{TLSClientConfig: config}
	req, err := http.NewRequest("GET", fmt.Sprintf("https://127.0.0.1:%d/", port), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "gw.example"
	req.Header.Set("X-Forwarded-Client-Cert", "URI=spiffe://example/root") // a forged header
	var got string
	// The secrets may arrive after the listener.
	r.envoy.Wait(fmt.Sprintf("%s by %s is %s", c.port, c.who, c.want), func() bool {
		resp, err := tr.RoundTrip(req)
		if err != nil {
			got = "denied"
			return c.want == got && strings.Contains(err.Error(), "tls: ")
		}
		resp.Body.Close()
		received := resp.Header.Get("Echo-X-Forwarded-Client-Cert")
		if strings.Contains(received, "spiffe://example/root") {
			t.Errorf("%s by %s: a client names itself, want that removed: %s", c.port, c.who, received)
		}
		var parts []string
		for _, p := range []string{"cert", "uri", "dns"} {
			if strings.Contains(strings.ToLower(received), p+"=") {
				parts = append(parts, p)
			}
		}
		got = fmt.Sprint(resp.StatusCode, " ", strings.Join(parts, ","))
		return got == c.want
	})
	tr.CloseIdleConnections()
}
