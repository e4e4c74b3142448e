package bootstrap

import (
	"fmt"
	"slices"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func merge(msg *bootstrapv3.Bootstrap, extra []byte) error {
	if len(extra) == 0 {
		return nil
	}
	more := &bootstrapv3.Bootstrap{}
	if err := protojson.Unmarshal(extra, more); err != nil {
		return fmt.Errorf("the bootstrap to merge in is not a valid bootstrap of Envoy: %w", err)
	}
	for field, given := range map[string]bool{
		"node": more.Node != nil, "admin": more.Admin != nil, "dynamic_resources": more.DynamicResources != nil,
	} {
		if given {
			return fmt.Errorf("%s cannot be merged in: it identifies the proxy to the control plane", field)
		}
	}
	for field, names := range map[string][]string{
		"static_resources.clusters":  namesOf(more.GetStaticResources().GetClusters()),
		"static_resources.listeners": namesOf(more.GetStaticResources().GetListeners()),
	} {
		for _, name := range names {
			if delivered(name) {
				return fmt.Errorf(
					"%s cannot be merged in: %q may be a name of what Penstock delivers; choose one other than %q "+
						"that has no slash and begins with none of %q", field, name, hops, reserved)
			}
		}
	}
	proto.Merge(msg, more)
	return unique(msg)
}

var reserved = []string{"penstock-", "hop."}

const hops = "hops"

// delivered reports whether ADS may deliver this name (translator/model). Envoy ignores a delivered
// resource whose name is in the bootstrap.
func delivered(name string) bool {
	return name == hops || strings.Contains(name, "/") ||
		slices.ContainsFunc(reserved, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func unique(msg *bootstrapv3.Bootstrap) error {
	for field, names := range map[string][]string{
		"static_resources.clusters":          namesOf(msg.GetStaticResources().GetClusters()),
		"static_resources.listeners":         namesOf(msg.GetStaticResources().GetListeners()),
		"layered_runtime.layers":             namesOf(msg.GetLayeredRuntime().GetLayers()),
		"overload_manager.resource_monitors": namesOf(msg.GetOverloadManager().GetResourceMonitors()),
		"overload_manager.actions":           namesOf(msg.GetOverloadManager().GetActions()),
		"overload_manager.loadshed_points":   namesOf(msg.GetOverloadManager().GetLoadshedPoints()),
		"stats_config.stats_tags":            tagsOf(msg.GetStatsConfig().GetStatsTags()),
	} {
		slices.Sort(names)
		for i := 1; i < len(names); i++ {
			if names[i] == names[i-1] {
				return fmt.Errorf(
					"%s cannot be merged in: there are two of the name %q; choose another one, or leave it out", field,
					names[i])
			}
		}
	}
	return nil
}

func namesOf[T interface{ GetName() string }](list []T) (names []string) {
	for _, entry := range list {
		names = append(names, entry.GetName())
	}
	return names
}

func tagsOf(list []*metricsv3.TagSpecifier) (names []string) {
	for _, tag := range list {
		names = append(names, tag.GetTagName())
	}
	return names
}
