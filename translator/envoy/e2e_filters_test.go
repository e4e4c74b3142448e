package envoy

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/api_key_auth/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// The slots for API keys, JWT and external authorization are empty composite filters. A policy that
// fills one may only change a route: a change of the filter list would end every stream of the
// gateway.
func TestFilters_AuthenticationOnOneHostKeepsTheListener(t *testing.T) {
	t.Parallel()
	r := newRig(t, closedPort(t))
	r.host("open", answers("open", prefix("/")))
	const types = "type.googleapis.com/envoy.extensions.filters.http."
	fill := map[string]string{
		filterAPIKey: `{"@type":"` + types +
			`api_key_auth.v3.ApiKeyAuth","key_sources":[{"header":"x-api-key"}],` +
			`"credentials":[{"key":"sesame","client":"ali"}]}`,
		filterJWT: `{"@type":"` + types +
			`jwt_authn.v3.JwtAuthentication","providers":{"p":{"issuer":"i","local_jwks":{"inline_string":` +
			fmt.Sprintf("%q", jwks(t)) + `}}},
			"rules":[{"match":{"prefix":"/"},"requires":{"provider_name":"p"}}]}`,
		filterAuthz: `{"@type":"` + types +
			`ext_authz.v3.ExtAuthz","transport_api_version":"V3","grpc_service":{"envoy_grpc":{"cluster_name":"` +
			model.OurPicker.String() + `"}}}`,
	}
	for filter, config := range fill {
		perRoute := &compositev3.CompositePerRoute{}
		if err := protojson.Unmarshal([]byte(`{"matcher":{"on_no_match":{"action":{"name":"always","typed_config":{
			"@type":"`+types+`composite.v3.ExecuteFilterAction","typed_config":{"name":"`+filter+`","typed_config":`+
			config+`}}}}}}`), perRoute); err != nil {
			t.Fatal(err)
		}
		b := &builder{}
		body, err := resource.Marshal(&routev3.VirtualHost{
			Name: filter, Domains: []string{filter},
			Routes:               b.routes(&model.VirtualHost{Routes: []model.Route{answers(filter, prefix("/"))}}),
			TypedPerFilterConfig: map[string]*anypb.Any{filter: b.any(perRoute)},
		})
		if err != nil || b.err != nil {
			t.Fatal(err, b.err)
		}
		r.hosts = append(r.hosts, &Encoded{Host: filter, Body: body})
	}
	r.start()
	for host, want := range map[string]string{"open": "200 open", filterAPIKey: "401", filterJWT: "401",
		filterAuthz: "403"} {
		got := r.post(t, host, nil)
		if s := fmt.Sprintf("%d %s", got.status, got.body); s[:min(len(s), len(want))] != want {
			t.Errorf("%s: want %s, got %s", host, want, got)
		}
	}
	req := r.request("GET", filterAPIKey, "/", nil)
	req.Header.Set("X-Api-Key", "sesame")
	if got, err := r.do(req); err != nil || got.body != filterAPIKey {
		t.Errorf("with the right key: %s %v", got, err)
	}
}

// jwks is a key set with a public key whose private part does not exist.
func jwks(t *testing.T) string {
	t.Helper()
	_, key, _, _ := newAuthority(t).issue(&x509.Certificate{})
	point, err := key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		t.Fatal(err)
	}
	part := base64.RawURLEncoding.EncodeToString
	return fmt.Sprintf(`{"keys":[{"kty":"EC","crv":"P-256","alg":"ES256","x":"%s","y":"%s"}]}`, part(point[1:33]),
		part(point[33:]))
}
