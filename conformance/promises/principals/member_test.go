package principals

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/federation"
)

// member is another cluster of the set. It writes publications about its exports, state, load and
// imports, and the messages of the channel that carry these publications.
var member = principal{"member", func(t testing.TB) []field {
	w := &walker{classes: memberClasses, unread: memberUnread}
	types := federation.WireTypes()
	for _, name := range slices.Sorted(maps.Keys(types)) {
		w.walk(name, reflect.TypeOf(types[name]))
	}
	w.walk("key", reflect.TypeFor[objectid.Pool]())
	whole := func(m protoreflect.MessageDescriptor) bool {
		return m.FullName() != "envoy.service.discovery.v3.Resource" && m.FullName() != "envoy.config.core.v3.Node"
	}
	w.walkProto("response", (&discoveryv3.DeltaDiscoveryResponse{}).ProtoReflect().Descriptor(), whole)
	w.walkProto("request", (&discoveryv3.DeltaDiscoveryRequest{}).ProtoReflect().Descriptor(), whole)
	return w.done(t)
}}

var memberUnread = []unread{
	{"record.entry.conditions", "an importer writes its own"},
	{"record.entry.parents[].conditions", "an importer writes its own"},
}

var memberClasses = map[string]class{
	"uid":       name,
	"bundle":    name, // another member's bundle
	"name":      name,
	"namespace": namespace,
	"Name":      name,
	"Namespace": namespace,
	"pool":      name,
	"hostname":  host,
	"address":   address,
	"counted[]": number,

	"addresses[]": address,
	"podCIDRs[]":  address,

	"routingMode": choice,
	"failureMode": choice,
	"appProtocol": choice,
	"type":        choice,

	"resources[].name": text, // the values of field key apply here
	"ttl":              duration,
}

func TestPrincipals_MemberChangesNoOthersRequests(t *testing.T) {
	newMembers(t).play()
}
