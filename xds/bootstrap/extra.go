package bootstrap

import (
	"fmt"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// merge puts what the user wants besides over a bootstrap: messages field by field, lists by appending.
func merge(msg *bootstrapv3.Bootstrap, extra []byte) error {
	if len(extra) == 0 {
		return nil
	}
	more := &bootstrapv3.Bootstrap{}
	if err := protojson.Unmarshal(extra, more); err != nil {
		return fmt.Errorf("what is to be merged in is not a bootstrap of Envoy: %w", err)
	}
	for field, given := range map[string]bool{
		"node": more.Node != nil, "admin": more.Admin != nil, "dynamic_resources": more.DynamicResources != nil,
	} {
		if given {
			return fmt.Errorf("%s cannot be merged in: by it the control plane knows the proxy", field)
		}
	}
	proto.Merge(msg, more)
	return nil
}
