package extproc

import (
	"context"
	"net/netip"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// graveyard is a Failures with one dead server.
type graveyard struct {
	dead netip.AddrPort
}

func (g graveyard) Dead(_ context.Context, gateway, pool string, server netip.AddrPort) bool {
	return gateway == "ns/gw" && pool == "ns/pool" && server == g.dead
}

func TestFailed_ResponseOfDeadServerIsMarked(t *testing.T) {
	config := Config{
		Failures: graveyard{netip.MustParseAddrPort("10.0.0.1:80")},
		Gateway:  func(context.Context) string { return "ns/gw" },
	}
	headers := &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: ":status", RawValue: []byte("500")}}}
	for server, want := range map[string]string{"10.0.0.1:80": HeaderDead, "10.0.0.2:80": "", "envoy://hops/": "",
		"-": ""} {
		k := open(t, startWith(t, &fakePicker{}, config), MetadataKeyFailed, server, MetadataKeyPool, "ns/pool")
		k.send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseHeaders{
			ResponseHeaders: &extprocv3.HttpHeaders{Headers: headers},
		}})
		answer, got := k.receive().GetResponseHeaders(), ""
		for _, h := range answer.GetResponse().GetHeaderMutation().GetSetHeaders() {
			got += h.GetHeader().GetKey()
		}
		if answer == nil || got != want {
			t.Errorf("%s: got header %q, want %q", server, got, want)
		}
	}
}

// Calls about failed responses from other clusters are denied.
func TestFailed_OthersMayNotAsk(t *testing.T) {
	for name, config := range map[string]Config{
		"a port of one pool": {Pool: "ns/pool"},
		"a member":           {Member: func(context.Context) string { return "east" }},
	} {
		k := open(t, startWith(t, &fakePicker{}, config), MetadataKeyFailed, "10.0.0.1:80", MetadataKeyPool, "ns/pool")
		if _, err := k.Recv(); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: got %v, want PermissionDenied", name, err)
		}
	}
}
