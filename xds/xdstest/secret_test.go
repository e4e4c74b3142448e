package xdstest_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

func tlsListener(t *testing.T, name string, port uint32, routes, secret string) *resource.Resource {
	t.Helper()
	var l listenerv3.Listener
	if err := proto.Unmarshal(xdstest.Listener(t, name, port, routes).Body(), &l); err != nil {
		t.Fatal(err)
	}
	config, err := anypb.New(&tlsv3.DownstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{{Name: secret, SdsConfig: xdstest.ADS()}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	l.FilterChains[0].TransportSocket = &corev3.TransportSocket{
		Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: config},
	}
	return xdstest.Resource(t, resource.Listener, name, &l,
		resource.Ref{Type: resource.RouteConfiguration, Name: routes},
		resource.Ref{Type: resource.Secret, Name: secret})
}

func certificate(t *testing.T, name string, serial int64) *resource.Resource {
	chain, key := issue(t, serial)
	return pair(t, name, chain, key)
}

func pair(t *testing.T, name string, chain, key []byte) *resource.Resource {
	source := func(text []byte) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: text}}
	}
	return xdstest.Resource(t, resource.Secret, name, &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{
		TlsCertificate: &tlsv3.TlsCertificate{CertificateChain: source(chain), PrivateKey: source(key)},
	}})
}

func issue(t *testing.T, serial int64) (chain, private []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// Envoy rejects a certificate without a name.
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{"example.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", keyDER)
}

// served returns the serial number of a port's certificate; 0 if the request fails.
func served(port uint32) int64 {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	resp, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/", port))
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0
	}
	return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
}

func TestSecret_MissingCertificateAffectsOnlyItsListener(t *testing.T) {
	w := &world{T: t, reports: &reports{}, a: backend(t), port: envoytest.FreePort(t)}
	secure := envoytest.FreePort(t)
	w.control = xdstest.Serve(t, server.Config{Reports: w.reports})
	w.control.Commit(append(w.base(), tlsListener(t, "secure", secure, "routes", "cert")))
	w.proxy = startEnvoy(t, w.control, "DELTA_GRPC")
	w.waitServes(w.port, w.a)
	w.control.WaitAcked(listener("secure"))
	if serial := served(secure); serial != 0 {
		t.Fatalf("certificate %d without a secret, want none", serial)
	}
	w.control.Commit([]*resource.Resource{certificate(t, "cert", 1)})
	w.wait("the certificate", func() bool { return served(secure) == 1 })
	w.control.Commit([]*resource.Resource{certificate(t, "cert", 2)})
	w.wait("the rotated certificate", func() bool { return served(secure) == 2 })

	w.control.Commit([]*resource.Resource{pair(t, "cert", []byte("not PEM"), []byte("not PEM"))})
	w.wait("a report", func() bool { return w.reports.message("cert") != "" })
	if serial := served(secure); serial != 2 {
		t.Errorf("an invalid certificate replaces the last good one: %d, want 2", serial)
	}
}
