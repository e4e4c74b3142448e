package gatewayapi_test

import (
	"fmt"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	// protojson needs these messages for routes to pools.
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

func TestGatewayAPI_RealEnvoyAcceptsTheResult(t *testing.T) {
	golden(t, func(t *testing.T, _ string, archive *txtar.Archive, cfg gatewayapi.Config) {
		w := decide(view(t, operations(t, string(archive.Files[0].Data))), cfg)
		var routes []string
		for _, key := range w.gatewayKeys() {
			gw := w.gateways[key]
			for _, p := range gatewayapi.Ports(gw) {
				for _, c := range p.Chains {
					routes = append(routes, routeConfiguration(t, c, w.hosts(gw, c.Name)))
				}
			}
		}
		if problem := envoytest.Validate(t, []byte(bootstrap("", routes...))); problem != "" {
			t.Error(problem)
		}
	})
}

// routeConfiguration returns a chain's routes as JSON. The clusters need not exist.
func routeConfiguration(t *testing.T, c model.Chain, hosts []*model.VirtualHost) string {
	t.Helper()
	var encoded []*envoy.Encoded
	for _, vh := range hosts {
		e, err := envoy.VirtualHost(vh)
		if err != nil {
			t.Fatal(err)
		}
		encoded = append(encoded, e)
	}
	block, err := envoy.NewBlock(encoded)
	if err != nil {
		t.Fatal(err)
	}
	res, err := envoy.RouteConfiguration(c.Name, c, block)
	if err != nil {
		t.Fatal(err)
	}
	rc := &routev3.RouteConfiguration{}
	if err := proto.Unmarshal(res.Body(), rc); err != nil {
		t.Fatal(err)
	}
	rc.ValidateClusters = wrapperspb.Bool(false)
	text, err := protojson.Marshal(rc)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// bootstrap returns a bootstrap with a listener for each route configuration. transport is the
// listeners' transport socket in JSON; "" for cleartext.
func bootstrap(transport string, routes ...string) string {
	var listeners []string
	for i, rc := range routes {
		socket := ""
		if transport != "" {
			socket = `"transport_socket": ` + transport + ","
		}
		listeners = append(listeners,
			fmt.Sprintf(`{"name": "l%d", "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
			"filter_chains": [{%s "filters": [{"name": "hcm", "typed_config": {
				"@type": "%s.network.http_connection_manager.v3.HttpConnectionManager",
				"stat_prefix": "x", "route_config": %s,
				"http_filters": [{"name": "r", "typed_config": {"@type": "%[3]s.http.router.v3.Router"}}]}}]}]}`,
				i, socket, "type.googleapis.com/envoy.extensions.filters", rc))
	}
	return fmt.Sprintf(
		`{"layered_runtime": {"layers": [{"name": "s", "static_layer": {"re2.max_program_size.error_level": 100000}}]},
		"static_resources": {"listeners": [%s]}}`, strings.Join(listeners, ","))
}
