package xdstest_test

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
	"net/url"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

type member struct {
	name   string
	ca     []byte // PEM
	client tls.Certificate
}

func newMember(t *testing.T, name string, bad bool) *member {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	subject := pkix.Name{CommonName: name}
	if bad {
		subject.CommonName += "\uffff"
	}
	from, to := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: subject, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: from, NotAfter: to, KeyUsage: x509.KeyUsageDigitalSignature,
		URIs:        []*url.URL{{Scheme: "spiffe", Host: name, Path: "/gateway"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	out := &member{name: name}
	for _, c := range []*x509.Certificate{ca, leaf} {
		der, err := x509.CreateCertificate(rand.Reader, c, ca, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		if c == ca {
			out.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
			continue
		}
		out.client = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}
	return out
}

func (m *member) isServed(port uint32) bool {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{m.client}},
	}}
	resp, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/", port))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode == http.StatusOK
}

func trust(t *testing.T, members ...*member) *resource.Resource {
	t.Helper()
	config := &tlsv3.SPIFFECertValidatorConfig{}
	for _, m := range members {
		config.TrustDomains = append(config.TrustDomains, &tlsv3.SPIFFECertValidatorConfig_TrustDomain{
			Name: m.name, TrustBundle: &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: m.ca}},
		})
	}
	packed, err := anypb.New(config)
	if err != nil {
		t.Fatal(err)
	}
	check := &tlsv3.CertificateValidationContext{
		CustomValidatorConfig: &corev3.TypedExtensionConfig{
			Name: "envoy.tls.cert_validator.spiffe", TypedConfig: packed,
		},
	}
	secret := &tlsv3.Secret{Name: "trust", Type: &tlsv3.Secret_ValidationContext{ValidationContext: check}}
	return xdstest.Resource(t, resource.Secret, "trust", secret)
}

// Only members may use membersListener. Another limit rebuilds the listener.
func membersListener(t *testing.T, name string, port uint32, certificate string, limit uint32) *resource.Resource {
	t.Helper()
	base := tlsListener(t, name, port, "routes", certificate)
	var l listenerv3.Listener
	var context tlsv3.DownstreamTlsContext
	if err := proto.Unmarshal(base.Body(), &l); err != nil {
		t.Fatal(err)
	}
	l.PerConnectionBufferLimitBytes = wrapperspb.UInt32(limit)
	socket := l.FilterChains[0].TransportSocket
	if err := socket.GetTypedConfig().UnmarshalTo(&context); err != nil {
		t.Fatal(err)
	}
	context.RequireClientCertificate = wrapperspb.Bool(true)
	context.CommonTlsContext.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{
		ValidationContextSdsSecretConfig: &tlsv3.SdsSecretConfig{Name: "trust", SdsConfig: xdstest.ADS()},
	}
	packed, err := anypb.New(&context)
	if err != nil {
		t.Fatal(err)
	}
	socket.ConfigType = &corev3.TransportSocket_TypedConfig{TypedConfig: packed}
	refs := append(base.Refs, resource.Ref{Type: resource.Secret, Name: "trust"})
	return xdstest.Resource(t, resource.Listener, name, &l, refs...)
}

// One secret has the certificates of all members, and Envoy accepts or rejects it as a whole.
func TestNACK_MemberWhoseCertificatesAreRejectedIsLeftOutAndOthersAreServed(t *testing.T) {
	for _, variant := range []string{"DELTA_GRPC", "GRPC"} {
		for _, fresh := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, fresh %v", variant, fresh), func(t *testing.T) {
				t.Parallel()
				w := &world{T: t, reports: &reports{}, a: backend(t), port: envoytest.FreePort(t)}
				port := envoytest.FreePort(t)
				w.control = xdstest.Serve(t, server.Config{Reports: w.reports})
				var members []*member
				for i := range 7 {
					members = append(members, newMember(t, fmt.Sprintf("m%d", i), false))
				}
				before := trust(t, members...)
				good := newMember(t, "new", false)
				members[2], members[5] = newMember(t, "m2", true), newMember(t, "m5", true)
				members = append(members, good, newMember(t, "worse", true))
				bad := map[string]bool{"m2": true, "m5": true, "worse": true}
				base := append(w.base(), membersListener(t, "members", port, "cert", 1<<20), certificate(t, "cert", 1))
				if !fresh {
					w.control.Commit(append(base, before))
					w.proxy = startEnvoy(t, w.control, variant)
					w.wait("a member is served", func() bool { return members[0].isServed(port) })
				}
				w.control.Commit(append(base, trust(t, members...)))
				if fresh {
					w.proxy = startEnvoy(t, w.control, variant)
				}
				settled := func() bool {
					message := w.reports.message("trust")
					return strings.Contains(message, "member m2 ") && strings.Contains(message, "member m5 ") &&
						strings.Contains(message, "member worse ")
				}
				w.wait("a report that names those at fault", settled)
				own := func() bool { return w.reports.message("cert") == "" }
				w.wait("no report on the listener's own certificate", own)
				for _, m := range members {
					if served := m.isServed(port); served == bad[m.name] {
						t.Errorf("member %s is served: %v, want %v", m.name, served, !bad[m.name])
					}
					named := strings.Contains(w.reports.message("trust"), fmt.Sprintf("member %s ", m.name))
					if named != bad[m.name] {
						t.Errorf("member %s: want it in the report: %t; the report: %s",
							m.name, bad[m.name], w.reports.message("trust"))
					}
				}
				w.control.Stop()
				w.control.Start(server.Config{Cache: w.control.Cache, Reports: w.reports})
				w.reports.Rejected("", "", nil)
				w.wait("the report again", settled)
				w.wait("a good member is served", func() bool { return good.isServed(port) })

				// The changed listener uses the secret that Envoy stored last.
				w.control.Commit([]*resource.Resource{membersListener(t, "members", port, "cert", 1<<16)})
				w.control.WaitAcked(listener("members"))
				w.wait("a good member is served", func() bool { return good.isServed(port) })

				for i, m := range members {
					if bad[m.name] {
						members[i] = newMember(t, m.name, false)
					}
				}
				w.control.Commit([]*resource.Resource{trust(t, members...)})
				for _, m := range members {
					w.wait(m.name+" is served", func() bool { return m.isServed(port) })
				}
				w.wait("the report is cleared", func() bool { return w.reports.message("trust") == "" })
			})
		}
	}
}
