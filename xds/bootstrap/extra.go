package bootstrap

import (
	"fmt"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// merge merges the user's bootstrap over a generated one: messages field by field, lists by appending.
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
	proto.Merge(msg, more)
	return nil
}
