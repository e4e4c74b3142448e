package publish_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/xds/publish"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest"
)

const rejected = "Failed to load certificate chain from <inline>"

func secretOf(t *testing.T, name, chain string) *resource.Resource {
	return xdstest.Resource(t, resource.Secret, name, &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{
		TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: []byte(chain)}},
		},
	}})
}

func userOf(t *testing.T, name, secret string, port uint32, more ...string) *resource.Resource {
	l := xdstest.Listener(t, name, port, "routes")
	refs := l.Refs
	for _, s := range append([]string{secret}, more...) {
		refs = append(refs, resource.Ref{Type: resource.Secret, Name: s})
	}
	part := resource.NewPart(l.Body(), refs, l.Owners())
	return resource.FromParts(resource.Listener, name, part)
}

func (s *script) subscribe(secrets ...string) {
	s.ask(publish.Request{Type: resource.Secret, Subscribe: slices.Values(secrets)})
}

func (s *script) sentChain() string {
	s.Helper()
	last := s.pending[len(s.pending)-1]
	var secret tlsv3.Secret
	if err := proto.Unmarshal(last.Upserts[0].Body(), &secret); err != nil {
		s.Fatal(err)
	}
	return string(secret.GetTlsCertificate().GetCertificateChain().GetInlineBytes())
}

// Envoy ACKs bytes that it already has without validating them, even if it rejected them.
func TestNACK_SecretIsSentAgainInOtherBytes(t *testing.T) {
	s := begin(t, publish.Config{})
	s.commit([]*resource.Resource{secretOf(t, "x", "one"), secretOf(t, "y", "two")})
	s.subscribe("x", "y")
	s.expect("secret +x,+y")
	s.nack(resource.Secret, rejected)
	s.expect("secret +x", "secret +y")
	if s.sentChain() == "two" {
		t.Error("Envoy would ACK the bytes that it has rejected")
	}
	version := s.pending[1].Upserts[0].Version
	s.nack(resource.Secret, rejected)
	s.expect("secret +x", "secret +y")
	s.nack(resource.Secret, rejected)
	if got := s.stream.Rejections(); len(got) != 2 {
		t.Errorf("%d rejections, want 2", len(got))
	}
	// Secret y is removed, and added again as before.
	s.commit(nil, resource.Ref{Type: resource.Secret, Name: "y"})
	s.expect()
	s.commit([]*resource.Resource{secretOf(t, "y", "two")})
	s.expect("secret +y")
	if s.sentChain() == "two" || s.pending[0].Upserts[0].Version != version {
		t.Errorf("%q at version %s, want %s", s.sentChain(), s.pending[0].Upserts[0].Version, version)
	}
}

// A starting proxy has no last good version. It must accept the placeholder, but no peer may trust
// it.
func TestNACK_SecretWithoutALastGoodVersionGetsAPlaceholder(t *testing.T) {
	bad := &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: []byte("bad")}}
	sans := []*tlsv3.SubjectAltNameMatcher{{SanType: tlsv3.SubjectAltNameMatcher_DNS}}
	for name, secret := range map[string]*tlsv3.Secret{
		"certificate": {Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: bad, PrivateKey: bad,
		}}},
		"CA": {Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
			TrustedCa: bad, MatchTypedSubjectAltNames: sans,
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			secret.Name = "x"
			s := begin(t, publish.Config{})
			s.commit([]*resource.Resource{xdstest.Resource(t, resource.Secret, "x", secret)})
			s.subscribe("x")
			s.expect("secret +x")
			s.nack(resource.Secret, rejected)
			s.expect("secret +x")
			last := s.pending[len(s.pending)-1].Upserts[0]
			var got tlsv3.Secret
			if err := proto.Unmarshal(last.Body(), &got); err != nil {
				t.Fatal(err)
			}
			chain := got.GetTlsCertificate().GetCertificateChain()
			if ca := got.GetValidationContext(); ca != nil {
				if chain = ca.GetTrustedCa(); len(ca.GetMatchTypedSubjectAltNames()) != 1 {
					t.Error("the names to verify are gone")
				}
			} else {
				key := got.GetTlsCertificate().GetPrivateKey().GetInlineBytes()
				if _, err := tls.X509KeyPair(chain.GetInlineBytes(), key); err != nil {
					t.Error(err)
				}
			}
			block, _ := pem.Decode(chain.GetInlineBytes())
			if block == nil {
				t.Fatalf("got %q, want PEM", chain.GetInlineBytes())
			}
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil || c.IsCA || time.Now().Before(c.NotAfter) {
				t.Errorf("the placeholder ends at %v, %v; want a leaf that has ended", c.NotAfter, err)
			}
			s.ack(resource.Secret)
			s.expect()
			if got := s.stream.Rejections(); len(got) != 1 || got[0].Ref.Name != "x" {
				t.Errorf("rejections: got %+v, want one of x", got)
			}
		})
	}
}

// Envoy rejects the valid second secret because the first secret is faulty. The second must be sent
// only once more.
func TestNACK_SecretsBesideAPlaceholderAreSentOnceMore(t *testing.T) {
	s := begin(t, publish.Config{})
	s.commit([]*resource.Resource{secretOf(t, "x", "one"), secretOf(t, "y", "two"), userOf(t, "l", "x", 1, "y")})
	s.subscribe("x", "y")
	sent, bad := 0, 0
	for len(s.pending) > 0 {
		if sent++; sent > 40 {
			t.Fatalf("%d responses, and it goes on, want at most 40", sent)
		}
		real := false
		for _, e := range s.pending[0].Upserts {
			if e.Type == resource.Secret {
				var secret tlsv3.Secret
				if err := proto.Unmarshal(e.Body(), &secret); err != nil {
					t.Fatal(err)
				}
				chain := secret.GetTlsCertificate().GetCertificateChain().GetInlineBytes()
				real = real || !bytes.Contains(chain, []byte("BEGIN"))
			}
		}
		answer := publish.Request{Type: s.pending[0].Type, Nonce: s.pending[0].Nonce}
		if real {
			answer.Error, bad = rejected, bad+1
		}
		s.pending = s.pending[1:]
		s.ask(answer)
	}
	if got := s.stream.Rejections(); len(got) != 2 || bad != 5 {
		t.Errorf("%d responses, %d of them rejected; %+v, want 2 of them and 5", sent, bad, got)
	}
}

// Envoy uses the secret bytes that arrived last for new listeners, even if it rejected them.
func TestNACK_LastGoodSecretIsSentAgainBeforeListenersThatNameIt(t *testing.T) {
	s := begin(t, publish.Config{})
	s.commit([]*resource.Resource{secretOf(t, "x", "good"), userOf(t, "l", "x", 1)})
	s.expect("listener +l")
	s.subscribe("x")
	s.ackAll()
	s.commit([]*resource.Resource{secretOf(t, "x", "bad"), userOf(t, "l", "x", 2)})
	s.expect("secret +x") // the listener waits for the secret
	s.nack(resource.Secret, rejected)
	s.expect("secret +x")
	if s.sentChain() != "good" {
		t.Errorf(`after the NACK it gets %q, want "good"`, s.sentChain())
	}
	s.ack(resource.Secret)
	s.expect("listener +l")
	if got := s.stream.Rejections(); len(got) != 1 || got[0].Ref.Name != "x" {
		t.Errorf("rejections: got %+v, want one of x", got)
	}
	s.ackAll()
	s.commit([]*resource.Resource{secretOf(t, "x", "good")})
	s.expect()
	if got := s.stream.Rejections(); len(got) != 0 {
		t.Errorf("%+v, want none", got)
	}
}

// A resumed proxy may have stored secret bytes that it rejected earlier.
func TestNACK_ListenerOfAResumedProxyIsSentAgainAfterItsSecret(t *testing.T) {
	s := begin(t, publish.Config{})
	secret := secretOf(t, "x", "good")
	s.commit([]*resource.Resource{secret})
	s.stream.Close()
	s.stream = publish.New(s.cache.Open(xdstest.Gateway, ""), publish.Config{})
	resume := func(kind resource.Type, names ...string) {
		initial := map[string]string{}
		for _, n := range names {
			version, _ := s.cache.Current(xdstest.Gateway, resource.Ref{Type: kind, Name: n})
			initial[n] = version
		}
		r := publish.Request{Type: kind, Initial: maps.All(initial)}
		if kind != resource.Cluster && kind != resource.Listener {
			r.Subscribe = slices.Values(names)
		}
		s.ask(r)
	}
	resume(resource.Cluster, "a")
	resume(resource.Endpoints, "a")
	resume(resource.Listener, "web")
	resume(resource.RouteConfiguration, "routes")
	resume(resource.Secret, "x")
	s.expect()
	s.commit([]*resource.Resource{userOf(t, "l", "x", 1)})
	s.expect("listener +l")
	s.nack(resource.Listener, "Error adding/updating listener(s) l: "+rejected)
	s.expect("secret +x")
	if s.sentChain() == "good" {
		t.Error("Envoy would ignore the bytes that it has accepted last")
	}
	s.ack(resource.Secret)
	s.expect("listener +l")
	s.nack(resource.Listener, "Error adding/updating listener(s) l: something else")
	s.advance(time.Hour)
	s.expect() // the listener is sent again only once
}
