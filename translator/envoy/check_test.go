package envoy

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// Encoding must fail for resources that Envoy would reject, because one NACK can block all other
// resources of the type.
func TestNACK_CausesAreFoundBeforeSending(t *testing.T) {
	b := &builder{}
	deep := b.any(&extprocv3.ExternalProcessor{ // an invalid filter within two levels of Any
		MessageTimeout: durationpb.New(-1),
	})
	ca := newAuthority(t)
	chain, key, _ := ca.server("a.example")
	_, other, _ := ca.server("a.example")
	certificate := func(chain, key []byte) *tlsv3.Secret {
		return &tlsv3.Secret{Name: "s", Type: &tlsv3.Secret_TlsCertificate{
			TlsCertificate: &tlsv3.TlsCertificate{CertificateChain: data(chain), PrivateKey: data(key)},
		}}
	}
	weightless := &routev3.WeightedCluster{
		Clusters: []*routev3.WeightedCluster_ClusterWeight{{Name: "c", Weight: wrapperspb.UInt32(0)}},
	}
	if _, err := checked(resource.Secret, "s", certificate(chain, key), nil, nil); err != nil {
		t.Errorf("a good certificate: got %v, want no error", err)
	}
	for name, c := range map[string]struct {
		typ  resource.Type
		msg  proto.Message
		want string
	}{
		"a message that breaks its own rules": {resource.Cluster, &clusterv3.Cluster{}, "Name"},
		"a broken message inside Any": {resource.Cluster, &clusterv3.Cluster{
			Name: "c", TypedExtensionProtocolOptions: map[string]*anypb.Any{"x": deep},
		}, "MessageTimeout"},
		"a type that does not exist": {resource.Cluster, &clusterv3.Cluster{
			Name: "c", TypedExtensionProtocolOptions: map[string]*anypb.Any{
				"x": {TypeUrl: "type.googleapis.com/no.such.Type"},
			},
		}, "no.such.Type"},
		"a host name where an address must be": {resource.Endpoints, &endpointv3.ClusterLoadAssignment{
			ClusterName: "c", Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
					Endpoint: &endpointv3.Endpoint{Address: address("pod.example", 1)},
				},
			}}}},
		}, "pod.example"},
		"an invalid certificate": {resource.Secret, certificate([]byte("x"), key), "certificate"},
		"an invalid key":         {resource.Secret, certificate(chain, []byte("x")), "key"},
		"a key that is not the certificate's": {resource.Secret, certificate(chain, other),
			"does not match the first certificate"},
		"weights that add up to nothing": {resource.RouteConfiguration, weightless, "add up to 0"},
		"two chains for the same connections": {resource.Listener, &listenerv3.Listener{
			Name: "l", FilterChains: []*listenerv3.FilterChain{{Name: "one"}, {Name: "two"}},
		}, "same connections"},
		"two chains of one name": {resource.Listener, &listenerv3.Listener{
			Name: "l", FilterChains: []*listenerv3.FilterChain{{Name: "one"}, {Name: "one"}},
		}, "named one"},
	} {
		_, err := checked(c.typ, "x", c.msg, nil, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want something about %q", name, err, c.want)
		}
	}
	if BlockOf("a.example") != BlockOf("A.example") {
		t.Error("one host twice falls into two blocks, where NewBlock cannot find it")
	}
	if _, err := NewBlock([]*Encoded{{Host: "a.example"}, {Host: "b.example"}, {Host: "A.example"}}); err == nil ||
		!strings.Contains(err.Error(), "a.example") {
		t.Errorf("one host twice: got %v, want an error that names a.example", err)
	}
}

func TestVirtualHost_InvalidIsNotEncoded(t *testing.T) {
	one := []model.WeightedBackend{{Cluster: named("c"), Weight: 1}}
	whole := "/x"
	for want, route := range map[string]model.Route{
		"missing closing )": {Match: model.Match{PathKind: model.PathRegex, Path: "/a(b"},
			Action: &model.Action{Forward: &model.Forward{Backends: one}}},
		"too large": {Match: model.Match{PathKind: model.PathRegex, Path: strings.Repeat(`\pL{1000}`, 20)},
			Action: &model.Action{Forward: &model.Forward{Backends: one}}},
		"2^32": {Match: prefix("/"), Action: &model.Action{Forward: &model.Forward{Backends: []model.WeightedBackend{
			{Cluster: named("c"), Weight: 1 << 31}, {Cluster: named("d"), Weight: 1 << 31}}}}},
		`header "Host"`: {
			Match: prefix("/"), Action: &model.Action{
				RequestHeaders: model.HeaderChanges{Remove: []string{"Host"}}, Forward: &model.Forward{Backends: one},
			},
		},
		"has no action": {Match: prefix("/"), Action: &model.Action{}},
		"status 304":    {Match: prefix("/"), Action: &model.Action{Redirect: &model.Redirect{Code: 304}}},
		"prefix is matched": {Match: model.Match{PathKind: model.PathExact, Path: "/a"},
			Action: &model.Action{
				Forward: &model.Forward{Backends: one, RewritePath: model.PathChange{Prefix: &whole}},
			}},
	} {
		if _, err := VirtualHost(&model.VirtualHost{
			Chain: "http/80", Host: "h", Routes: []model.Route{route},
		}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want something about %q", err, want)
		}
	}
}

func TestRegex_OrdinaryExpressionsPass(t *testing.T) {
	for _, re := range []string{"/v[0-9]+/.*", "a{1,1000}", `(?i)(gpt|llama)-[\w.-]+`, `\p{L}+`, ".{0,500}"} {
		if err := CheckRegex(re); err != nil {
			t.Error(err)
		}
	}
	for _, re := range []string{"", "(", "a{1,1001}", `\C`, `(?=x)`} {
		if CheckRegex(re) == nil {
			t.Errorf("%q passes, want an error", re)
		}
	}
}
