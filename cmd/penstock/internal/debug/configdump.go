package debug

import (
	"encoding/json"
	"fmt"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/xds/resource"
)

func configDump(resources []*resource.Resource) (json.RawMessage, error) {
	var (
		clusters  adminv3.ClustersConfigDump
		listeners adminv3.ListenersConfigDump
		routes    adminv3.RoutesConfigDump
		endpoints adminv3.EndpointsConfigDump
		secrets   adminv3.SecretsConfigDump
	)
	for _, r := range resources {
		var body *anypb.Any
		msg, err := Redacted(r)
		if err == nil {
			body, err = anypb.New(msg)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Ref, err)
		}
		switch r.Type {
		case resource.Cluster:
			clusters.DynamicActiveClusters = append(clusters.DynamicActiveClusters,
				&adminv3.ClustersConfigDump_DynamicCluster{VersionInfo: r.Version, Cluster: body})
		case resource.Listener:
			listeners.DynamicListeners = append(listeners.DynamicListeners,
				&adminv3.ListenersConfigDump_DynamicListener{
					Name: r.Name, ActiveState: &adminv3.ListenersConfigDump_DynamicListenerState{
						VersionInfo: r.Version, Listener: body,
					},
				})
		case resource.RouteConfiguration:
			routes.DynamicRouteConfigs = append(routes.DynamicRouteConfigs,
				&adminv3.RoutesConfigDump_DynamicRouteConfig{VersionInfo: r.Version, RouteConfig: body})
		case resource.Endpoints:
			endpoints.DynamicEndpointConfigs = append(endpoints.DynamicEndpointConfigs,
				&adminv3.EndpointsConfigDump_DynamicEndpointConfig{VersionInfo: r.Version, EndpointConfig: body})
		case resource.Secret:
			secrets.DynamicActiveSecrets = append(secrets.DynamicActiveSecrets,
				&adminv3.SecretsConfigDump_DynamicSecret{Name: r.Name, VersionInfo: r.Version, Secret: body})
		}
	}
	var dump adminv3.ConfigDump
	for _, section := range []proto.Message{&clusters, &listeners, &routes, &endpoints, &secrets} {
		packed, err := anypb.New(section)
		if err != nil {
			return nil, err
		}
		dump.Configs = append(dump.Configs, packed)
	}
	return JSON(&dump)
}

// Decode returns a resource's message.
func Decode(r *resource.Resource) (proto.Message, error) {
	kind, err := protoregistry.GlobalTypes.FindMessageByURL(r.Type.URL())
	if err != nil {
		return nil, err
	}
	msg := kind.New().Interface()
	return msg, proto.Unmarshal(r.Body(), msg)
}

// Redacted returns a resource's message without credentials.
func Redacted(r *resource.Resource) (proto.Message, error) {
	msg, err := Decode(r)
	if err != nil {
		return nil, err
	}
	return msg, Redact(msg)
}

// JSON returns a message with the field names of Envoy's documentation. Equal messages give equal
// bytes.
func JSON(msg proto.Message) (json.RawMessage, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(msg)
	if err != nil {
		return nil, err
	}
	var tidy any // removes white space, which protojson varies on purpose
	if err := json.Unmarshal(text, &tidy); err != nil {
		return nil, err
	}
	return json.Marshal(tidy)
}
