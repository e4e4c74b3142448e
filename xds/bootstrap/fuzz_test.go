package bootstrap_test

import (
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/penstock-project/penstock/xds/bootstrap"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

var extraSeeds = []string{
	`{}`, `null`, `{"stats_flush_interval":"10s"}`,
	`{"static_resources":{"clusters":[{"name":"mine","type":"STATIC"}]}}`, `{"node":{"id":"other"}}`, `{"admin":{}}`,
	`{"dynamic_resources":null}`,
	`{"stats_config":{"stats_tags":[{"tag_name":"a","fixed_value":"b"}]}}`,
	`{"layered_runtime":{"layers":[{"name":"mine","static_layer":{"a":1}}]}}`,
	`{"overload_manager":{"refresh_interval":"1s"}}`,
	`{"static_resources":{"clusters":[{"name":"xds","type":"STATIC"}]}}`,
	`{"layered_runtime":{"layers":[{"name":"static","static_layer":{}}]}}`,
	`{"overload_manager":{"actions":[{"name":"envoy.overload_actions.stop_accepting_requests","triggers":[{"name":"a","threshold":{"value":0.1}}]}]}}`,
	`{"cluster_manager":{"local_cluster_name":"xds"}}`, `{"nodes":1}`,
	`{"staticResources":{"listeners":[{"name":"ready","address":{"pipe":{"path":"/tmp/x"}}}]}}`,
}

// A user's bootstrap must be an error, or keep the proxy's identity and every entry of Penstock's
// lists.
func FuzzBootstrap_ExtraKeepsOurs(f *testing.F) {
	for _, s := range extraSeeds {
		f.Add([]byte(s))
	}
	config := bootstrap.Config{Gateway: "default/web", ADS: []string{"127.0.0.1:18000"}, Ready: "127.0.0.1:18001"}
	ours, err := bootstrap.New(config)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, extra []byte) {
		config := config
		config.Extra = extra
		got, err := bootstrap.New(config)
		if err != nil {
			return
		}
		for _, pair := range [][2]proto.Message{{got.Node, ours.Node}, {got.Admin, ours.Admin},
			{got.DynamicResources, ours.DynamicResources}} {
			if !proto.Equal(pair[0], pair[1]) {
				t.Errorf("%v, want %v", pair[0], pair[1])
			}
		}
		begins(t, got.ProtoReflect(), ours.ProtoReflect())
		raw, err := protojson.Marshal(got)
		if err != nil || protojson.Unmarshal(raw, &bootstrapv3.Bootstrap{}) != nil {
			t.Errorf("cannot be written: %v, want JSON that is read again", err)
		}
	})
}

// begins checks that every list in got begins with the entries in ours.
func begins(t *testing.T, got, ours protoreflect.Message) {
	t.Helper()
	ours.Range(func(fd protoreflect.FieldDescriptor, want protoreflect.Value) bool {
		switch has := got.Get(fd); {
		case fd.IsMap():
		case fd.IsList():
			if has.List().Len() < want.List().Len() {
				t.Errorf("%s has %d entries, want at least our %d", fd.FullName(), has.List().Len(), want.List().Len())
				return true
			}
			for i := range want.List().Len() {
				if !has.List().Get(i).Equal(want.List().Get(i)) {
					t.Errorf("%s[%d] is %v, want %v", fd.FullName(), i, has.List().Get(i), want.List().Get(i))
				}
			}
		case fd.Message() != nil:
			begins(t, has.Message(), want.Message())
		}
		return true
	})
}

func TestBootstrap_ExtraIsValidOrAnError(t *testing.T) {
	for _, extra := range extraSeeds {
		raw, err := bootstrap.YAML(bootstrap.Config{
			Gateway: "default/web", ADS: []string{"127.0.0.1:18000"}, Ready: "127.0.0.1:18001", Extra: []byte(extra),
		})
		if err != nil {
			continue
		}
		if problem := envoytest.Validate(t, raw); problem != "" {
			t.Errorf("%s: Envoy reports %s, want no problem", extra, problem)
		}
	}
}
