package picker

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A request for the models of an import with several clusters names the import, which is no pool.
// The picker answers it with the list, or passes it to Envoy without a pick.
func TestModels_OfAnImportAreAskedForByItsName(t *testing.T) {
	list := `{"data": [{"id": "qwen"}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, list) }))
	defer server.Close()
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	setPools(t, p,
		Pool{ID: poolID("ns/far@east"), Gateways: true,
			Servers: []Server{{Addr: netip.MustParseAddrPort(server.Listener.Addr().String()), Cleartext: true}}})
	conn := dialPicker(t, address)
	ask := func(pool, pools, path string) (answer string) {
		stream, cancel := call(t, conn, "x-penstock-pool", pool, "x-penstock-pools", pools)
		defer cancel()
		if err := stream.Send(headerMessage(nil, ":method", "GET", ":path", path, ":authority", "llm.example")); err !=
			nil {
			t.Fatal(err)
		}
		r, err := stream.Recv()
		switch now := r.GetImmediateResponse(); {
		case err != nil:
			return status.Code(err).String()
		case now != nil:
			return fmt.Sprintf("%d %s", now.GetStatus().GetCode(), now.GetBody())
		}
		return "passes"
	}
	if got := ask("ns/far@", "ns/far@east,ns/far@gone", "/v1/models"); !strings.HasPrefix(got, "200 ") ||
		!strings.Contains(got, `"qwen"`) {
		t.Errorf(`the list is %s, want the beginning "200 " and a text with "\"qwen\""`, got)
	}
	for _, tt := range []struct{ pool, pools, path, want string }{
		{"ns/far@", "ns/far@gone", "/v1/models", "passes"},
		// Another picker may have the import.
		{"ns/far@", "ns/far@east", "/v1/chat/completions", codes.Unavailable.String()},
		{"ns/far@", "", "/v1/models", codes.Unavailable.String()},
		{"ns/other", "ns/other,ns/far@east", "/v1/models", codes.Unavailable.String()},
	} {
		if got := ask(tt.pool, tt.pools, tt.path); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt, got, tt.want)
		}
	}
}
