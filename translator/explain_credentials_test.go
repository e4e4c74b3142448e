package translator_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
)

// A rule's match may contain another client's key. Explain must not show keys, which it recognizes
// by the name of the header or parameter, or by the value's form.
func TestExplain_ShowsNoKeysOfOtherClients(t *testing.T) {
	const secret = "canary-0123456789"
	regex := gatewayv1.HeaderMatchRegularExpression
	inQuery := gatewayv1.QueryParamMatchRegularExpression
	header := func(name, value string) gatewayv1.HTTPHeaderMatch {
		return gatewayv1.HTTPHeaderMatch{Type: &regex, Name: gatewayv1.HTTPHeaderName(name), Value: value + "|open"}
	}
	route := importRoute("r", "chat")
	route.Spec.Rules[0].Matches = []gatewayv1.HTTPRouteMatch{{
		Path: &gatewayv1.HTTPPathMatch{Type: ptr(gatewayv1.PathMatchPathPrefix), Value: ptr("/v1")},
		Headers: []gatewayv1.HTTPHeaderMatch{
			header("Authorization", "Bearer "+secret), header("X-Api-Key", secret), header("X-Tenant", "blue"),
			header("X-Via", "Bearer "+secret),
		},
		QueryParams: []gatewayv1.HTTPQueryParamMatch{{Type: &inQuery, Name: "api_key", Value: "open(" + secret + ")?"}},
	}}
	route.Spec.Hostnames = []gatewayv1.Hostname{"a.example.com"}
	grpc := &gatewayv1.GRPCRoute{}
	grpc.Namespace, grpc.Name = "default", "g"
	grpc.Spec.ParentRefs, grpc.Spec.Hostnames = route.Spec.ParentRefs, []gatewayv1.Hostname{"grpc.example.com"}
	grpc.Spec.Rules =
		[]gatewayv1.GRPCRouteRule{{Matches: []gatewayv1.GRPCRouteMatch{{Headers: []gatewayv1.GRPCHeaderMatch{{
			Type: ptr(gatewayv1.GRPCHeaderMatchRegularExpression), Name: "x-api-key", Value: secret + "|open",
		}}}}}}
	w := newNamed(t)
	w.apply(offerSince(1, "chat", "east", false), store.HTTPRoutes.Put(route), store.GRPCRoutes.Put(grpc))
	for _, q := range []translator.Query{
		{
			URL: &url.URL{Scheme: "http", Host: "a.example.com", Path: "/v1/models", RawQuery: "api_key=open"},
			Header: http.Header{"Authorization": {"open"}, "X-Api-Key": {"open"}, "X-Tenant": {"open"},
				"X-Via": {"open"}},
		},
		{URL: &url.URL{Scheme: "grpc", Host: "grpc.example.com", Path: "/a.B/C"},
			Header: http.Header{"X-Api-Key": {"open"}}},
	} {
		e := w.tr.Explain(q)
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if e.Route == nil || !strings.Contains(strings.ToLower(e.Match), "x-api-key=redacted: ") {
			t.Errorf("%s does not take the rule, want it with the key redacted: %s", q.URL, text)
		}
		if strings.Contains(string(text), secret) {
			t.Errorf("%s shows a key, want it redacted: %s", q.URL, text)
		}
		if e.Route != nil && e.Route.Kind == "HTTPRoute" && !strings.Contains(e.Match, "blue") {
			t.Errorf("a header that is no credential is hidden, want blue: %s", e.Match)
		}
	}
}
