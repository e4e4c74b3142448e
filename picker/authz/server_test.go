package authz_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/picker/authz"
)

type call struct {
	path, policies, gateway, address string
	lists                            bool
	headers                          []string // names and values
	tokens                           authz.Tokens
	now                              time.Time // zero means noon
}

func (c call) request() *authv3.CheckRequest {
	m := &corev3.HeaderMap{}
	for i := 0; i < len(c.headers); i += 2 {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: c.headers[i], RawValue: []byte(c.headers[i+1])})
	}
	extensions := map[string]string{authz.PoliciesKey: c.policies}
	if c.lists {
		extensions[authz.ListsKey] = "true"
	}
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		ContextExtensions: extensions,
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: c.address}}}},
		Request: &authv3.AttributeContext_Request{
			Http: &authv3.AttributeContext_HttpRequest{Path: c.path, HeaderMap: m, Method: http.MethodGet},
		},
	}}
}

func check(tab *authz.Table, c call) (*authv3.CheckResponse, error) {
	now := noon
	if !c.now.IsZero() {
		now = c.now
	}
	s := authz.New(authz.Config{
		Table: tab, Now: func() time.Time { return now }, Tokens: c.tokens,
		Gateway: func(context.Context) string { return c.gateway },
		Gates:   func(gateway, policy string) bool { return gateway == "infra/edge" && policy == "infra/all" },
	})
	return s.Check(context.Background(), c.request())
}

func infra() *authz.Table {
	return table([]*authz.Key{key("infra", "alice", "sk-secret", func(k *authz.Key) { k.Objective = "batch" })},
		map[string]*authz.Policy{"infra/all": lets("", "infra"), "infra/b": lets("", "infra")})
}

// The answer lists the policies for the route's RBAC filter, removes the key, and overwrites the
// client's x-penstock-caller.
func TestCheck_PassesWithTheDecidedPoliciesAndWithoutTheKey(t *testing.T) {
	got, err := check(infra(),
		call{policies: "infra/all,infra/b", headers: []string{"authorization", "Bearer sk-secret"}})
	if err != nil || got.GetStatus().GetCode() != int32(codes.OK) {
		t.Fatal(got, err)
	}
	var decided []string
	for _, v := range got.GetDynamicMetadata().GetFields()["decided"].GetListValue().GetValues() {
		decided = append(decided, v.GetStringValue())
	}
	if !slices.Equal(decided, []string{"infra/all", "infra/b"}) {
		t.Error("decided:", decided)
	}
	ok := got.GetOkResponse()
	if !slices.Contains(ok.GetHeadersToRemove(), "authorization") {
		t.Error("removes", ok.GetHeadersToRemove())
	}
	want := map[string]string{authz.CallerHeader: "infra/alice", "x-gateway-inference-fairness-id": "infra/alice",
		"x-gateway-inference-objective": "batch"}
	for _, h := range ok.GetHeaders() {
		if want[h.GetHeader().GetKey()] == h.GetHeader().GetValue() &&
			h.GetAppendAction() == corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
			delete(want, h.GetHeader().GetKey())
		}
	}
	if len(want) > 0 {
		t.Error("does not overwrite", want)
	}
	if strings.Contains(got.String(), "sk-secret") {
		t.Error("the answer has the key")
	}
}

func TestCheck_DeniesInTheFormatOfTheAPI(t *testing.T) {
	for _, c := range []struct {
		name         string
		call         call
		status, code int
		fields       []string
	}{
		{"openai", call{path: "/v1/chat/completions", policies: "infra/all"}, 401, 16,
			[]string{"error.code invalid_api_key", "error.type invalid_request_error"}},
		{"anthropic", call{path: "/v1/messages?beta=true", policies: "infra/all"}, 401, 16,
			[]string{"type error", "error.type authentication_error"}},
		{"grpc", call{path: "/pkg.S/M", policies: "infra/all",
			headers: []string{"content-type", "application/grpc"}}, 401, 16, nil},
	} {
		got, err := check(infra(), c.call)
		denied := got.GetDeniedResponse()
		if err != nil || int(denied.GetStatus().GetCode()) != c.status || int(got.GetStatus().GetCode()) != c.code {
			t.Errorf("%s: got %v %v, want HTTP status %d and gRPC code %d", c.name, got, err, c.status, c.code)
		}
		headers := map[string]string{}
		for _, h := range denied.GetHeaders() {
			headers[h.GetHeader().GetKey()] = h.GetHeader().GetValue()
		}
		if headers["x-penstock-reason"] != "invalid_api_key" || headers["www-authenticate"] != "Bearer" {
			t.Errorf("%s: headers %v, want reason invalid_api_key and a Bearer challenge", c.name, headers)
		}
		var body map[string]any
		if err := json.Unmarshal([]byte(denied.GetBody()), &body); (err == nil) != (c.fields != nil) {
			t.Errorf("%s: body %s, want JSON: %t", c.name, denied.GetBody(), c.fields != nil)
		}
		for _, field := range c.fields {
			path, want, _ := strings.Cut(field, " ")
			v := any(body)
			for _, name := range strings.Split(path, ".") {
				v = v.(map[string]any)[name]
			}
			if v != want {
				t.Errorf("%s: %s is %v, want %s", c.name, path, v, want)
			}
		}
	}
}

// Check fails closed, with UNAVAILABLE only if Envoy should call another process.
func TestCheck_FailsClosed(t *testing.T) {
	with := []string{"authorization", "Bearer sk-secret"}
	for name, c := range map[string]call{
		"no policy":             {headers: with},
		"an unknown policy":     {policies: "infra/other", headers: with},
		"of another Gateway":    {policies: "infra/b", gateway: "infra/edge", headers: with},
		"by another Gateway":    {policies: "infra/all", gateway: "tenant/edge", headers: with},
		"one of several":        {policies: "infra/all,infra/b", gateway: "infra/edge", headers: with},
		"an empty policy":       {policies: ",", headers: with},
		"policy and empty name": {policies: "infra/all,", headers: with},
	} {
		if got, err := check(infra(), c); status.Code(err) != codes.Unavailable || got != nil {
			t.Errorf("%s: got %v %v, want Unavailable", name, got, err)
		}
	}
	if _, err := check(infra(), call{policies: "infra/all", gateway: "infra/edge", headers: with}); err != nil {
		t.Error("its own Gateway:", err)
	}
	empty := authz.New(authz.Config{Table: infra(), Now: time.Now, Gateway: func(context.Context) string { return "" }})
	if got, err := empty.Check(context.Background(), nil); err == nil {
		t.Error("an empty request:", got)
	}
}
