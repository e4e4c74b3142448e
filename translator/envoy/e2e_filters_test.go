package envoy

import (
	"fmt"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// External authorization must change only a route, which fills an empty composite filter. A change
// of the filter list would end every stream of the gateway.
func TestFilters_AuthenticationOnOneHostKeepsTheListener(t *testing.T) {
	t.Parallel()
	r := newRig(t, closedPort(t))
	r.host("open", answers("open", prefix("/")))
	const types = "type.googleapis.com/envoy.extensions.filters.http."
	fill := map[string]string{
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
	for host, want := range map[string]string{"open": "200 open", filterAuthz: "403"} {
		got := r.post(t, host, nil)
		if s := fmt.Sprintf("%d %s", got.status, got.body); s[:min(len(s), len(want))] != want {
			t.Errorf("%s: want %s, got %s", host, want, got)
		}
	}
}
