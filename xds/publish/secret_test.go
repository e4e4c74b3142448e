package publish_test

import (
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

// secretOf is a certificate of one listener.
func secretOf(t *testing.T, name, chain string) *resource.Resource {
	return xdstest.Resource(t, resource.Secret, name, &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{
		TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: []byte(chain)}},
		},
	}})
}

// userOf is a listener that names a secret.
func userOf(t *testing.T, name, secret string, port uint32) *resource.Resource {
	l := xdstest.Listener(t, name, port, "routes")
	part := resource.NewPart(l.Body(), append(l.Refs, resource.Ref{Type: resource.Secret, Name: secret}), l.Owners())
	return resource.FromParts(resource.Listener, name, part)
}

func (s *script) subscribe(secrets ...string) {
	s.ask(publish.Request{Type: resource.Secret, Subscribe: slices.Values(secrets)})
}

// sentChain is the certificate in the last response.
func (s *script) sentChain() string {
	s.Helper()
	last := s.pending[len(s.pending)-1]
	var secret tlsv3.Secret
	if err := proto.Unmarshal(last.Upserts[0].Body(), &secret); err != nil {
		s.Fatal(err)
	}
	return string(secret.GetTlsCertificate().GetCertificateChain().GetInlineBytes())
}

// Envoy ACKs the same bytes again without another look, even where it has rejected them.
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
	if got := s.stream.Rejections(); len(got) != 2 {
		t.Errorf("%d rejections", len(got))
	}
	// Removed, and as before again.
	s.commit(nil, resource.Ref{Type: resource.Secret, Name: "y"})
	s.expect()
	s.commit([]*resource.Resource{secretOf(t, "y", "two")})
	s.expect("secret +y")
	if s.sentChain() == "two" || s.pending[0].Upserts[0].Version != version {
		t.Errorf("%q at version %s, want %s", s.sentChain(), s.pending[0].Upserts[0].Version, version)
	}
}

// A listener takes the bytes that came last, whatever Envoy thought of them.
func TestNACK_LastGoodSecretIsSentAgainBeforeListenersThatNameIt(t *testing.T) {
	s := begin(t, publish.Config{})
	s.commit([]*resource.Resource{secretOf(t, "x", "good"), userOf(t, "l", "x", 1)})
	s.expect("listener +l")
	s.subscribe("x")
	s.ackAll()
	s.commit([]*resource.Resource{secretOf(t, "x", "bad"), userOf(t, "l", "x", 2)})
	s.expect("secret +x") // the listener waits
	s.nack(resource.Secret, rejected)
	s.expect("secret +x")
	if s.sentChain() != "good" {
		t.Errorf("after the NACK it gets %q", s.sentChain())
	}
	s.ack(resource.Secret)
	s.expect("listener +l")
	if got := s.stream.Rejections(); len(got) != 1 || got[0].Ref.Name != "x" {
		t.Errorf("%+v", got)
	}
	// The user takes the change back.
	s.ackAll()
	s.commit([]*resource.Resource{secretOf(t, "x", "good")})
	s.expect()
	if got := s.stream.Rejections(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// A proxy may store bytes that an earlier process sent and it rejected.
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
	s.expect() // once
}
