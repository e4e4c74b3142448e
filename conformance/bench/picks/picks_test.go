package picks_test

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/picks"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

func TestClients_CountAnswersAndReportErrors(t *testing.T) {
	models, err := picks.StartModels(1)
	if err != nil {
		t.Fatal(err)
	}
	defer models.Close()
	c := picks.Clients{Address: models.Addresses[0].String(), Connections: 2}
	requests := [][]byte{picks.Request("none", picks.Chat(1000, 0)), picks.Request("none", picks.Chat(100_000, 1))}
	if n, err := c.Saturate(context.Background(), requests, 100*time.Millisecond); err != nil || n < 10 {
		t.Errorf("saturated: %d answers, %v, want at least 10", n, err)
	}
	models.Close()
	if _, err := c.Saturate(context.Background(), requests, time.Second); err == nil {
		t.Error("no error without a server")
	}
}

func TestChat_IsAChatCompletionOfItsSize(t *testing.T) {
	for _, size := range []int{1 << 10, 10 << 10, 400 << 10} {
		body := picks.Chat(size, 7)
		if !json.Valid(body) || len(body) < size*85/100 || len(body) > size*105/100 {
			t.Errorf("got %d bytes for %d, valid: %t, want 85 to 105 %%, and true", len(body), size, json.Valid(body))
		}
	}
}

func TestGateway_ConfigurationIsValid(t *testing.T) {
	address := netip.MustParseAddrPort("127.0.0.1:1")
	text, err := picks.Gateway{
		Listen: address, Models: []netip.AddrPort{address},
		Servers: map[string]netip.AddrPort{picks.Ours: address, picks.Echo: address},
	}.Bootstrap()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "exact: "); n != 4 {
		t.Errorf("%d routes, want one for each server and mode", n)
	}
	if problem := envoytest.Validate(t, text); problem != "" {
		t.Errorf("Envoy reports %s, want no problem", problem)
	}
}
