package authz_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/penstock-project/penstock/picker/authz"
)

// An address that guesses keys gets 429, also for a valid key. Well-formed keys, keys that were
// valid before, requests without a key, and other addresses are not limited.
func TestCheck_LimitsFailedAttemptsByAddress(t *testing.T) {
	made, err := authz.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tab := table([]*authz.Key{key("n", "imported", "sk-imported", nil), key("n", "used", "sk-used", nil),
		key("n", "made", made, nil)}, map[string]*authz.Policy{"n/p": lets("", "n")})
	now := noon
	s := authz.New(authz.Config{Table: tab, Now: func() time.Time { return now },
		Gateway: func(context.Context) string { return "" }})
	status := func(from, key string) int {
		t.Helper()
		m := &corev3.HeaderMap{}
		if key != "" {
			m.Headers = []*corev3.HeaderValue{{Key: "x-api-key", Value: key}}
		}
		got, err := s.Check(context.Background(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
			ContextExtensions: map[string]string{authz.PoliciesKey: "n/p", authz.PoolsKey: ""},
			Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
				SocketAddress: &corev3.SocketAddress{Address: from}}}},
			Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{HeaderMap: m}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if got.GetOkResponse() != nil {
			return 200
		}
		return int(got.GetDeniedResponse().GetStatus().GetCode())
	}
	status("192.0.2.1", "sk-used")
	status("2001:db8::1", "sk-used")
	for range 100 {
		status("192.0.2.1", "sk-guess")
		status("2001:db8::1", "sk-guess")
		now = now.Add(5 * time.Millisecond)
	}
	for _, c := range []struct {
		from, key string
		want      int
	}{
		{"192.0.2.1", "sk-guess", 429}, {"192.0.2.1", "sk-imported", 429}, {"192.0.2.1", "sk-used", 200},
		{"192.0.2.1", made, 200}, {"192.0.2.1", "", 401}, {"192.0.2.2", "sk-imported", 200},
		{"192.0.2.2", "sk-guess", 401}, {"2001:db8::2", "sk-imported", 429}, {"2001:db8:0:1::1", "sk-imported", 200},
		{"", "sk-guess", 401},
	} {
		if got := status(c.from, c.key); got != c.want {
			t.Errorf("%s from %q: %d, want %d", c.key, c.from, got, c.want)
		}
	}
	now = now.Add(time.Minute)
	if got := status("192.0.2.1", "sk-imported"); got != 200 {
		t.Error("a minute later:", got)
	}
}
