package server

import (
	"maps"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

func FuzzDeltaRequest_EqualsGenerated(f *testing.F) {
	for _, m := range []*discoveryv3.DeltaDiscoveryRequest{
		{},
		{Node: &corev3.Node{Id: "a", Cluster: "ns/gw"}, TypeUrl: "type", ResourceNamesSubscribe: []string{"*", "a", ""},
			ResourceNamesUnsubscribe: []string{"b", "c"}},
		{TypeUrl: "type", InitialResourceVersions: map[string]string{"a": "1", "b": "", "": "2"}, ResponseNonce: "7"},
		{ResponseNonce: "8", ErrorDetail: &statuspb.Status{Code: 3, Message: "no"}},
		{ErrorDetail: &statuspb.Status{}},
		{ResourceNamesSubscribe: []string{"\xff"}},
		{ResourceLocatorsSubscribe: []*discoveryv3.ResourceLocator{{Name: "a"}}},
	} {
		b, err := proto.MarshalOptions{AllowPartial: true}.Marshal(m)
		if err != nil { // a name is invalid UTF-8
			b = append(protowire.AppendTag(nil, requestSubscribe, protowire.BytesType), 1, 0xff)
		}
		f.Add(b, 3)
		f.Add(append(b, b...), 0)
	}
	f.Add(protowire.AppendVarint(protowire.AppendTag(nil, requestInitial, protowire.VarintType), 1<<63), 1)
	f.Add(protowire.AppendFixed32(protowire.AppendTag(nil, requestTypeURL, protowire.Fixed32Type), 5), 1)
	f.Add(protowire.AppendFixed64(protowire.AppendTag(nil, 100, protowire.Fixed64Type), 5), 1)
	f.Add([]byte{0xb0, 0xb0, 0xb0, 0xb0, 0x30, 0x30}, 1) // the field number is too large
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		cut = max(0, min(cut, len(b)))
		want, got := &discoveryv3.DeltaDiscoveryRequest{}, &deltaRequest{}
		wantErr := proto.Unmarshal(b, want)
		err := got.decode(mem.BufferSlice{mem.SliceBuffer(b[:cut]), mem.SliceBuffer(b[cut:])})
		if (err == nil) != (wantErr == nil) {
			if ignored(b) {
				return
			}
			t.Fatalf("%x: %v, but the generated message returns %v", b, err, wantErr)
		}
		if err != nil {
			return
		}
		var subscribe, unsubscribe []string
		var initial map[string]string
		if names := got.names(requestSubscribe); names != nil {
			subscribe = slices.Collect(names)
		}
		if names := got.names(requestUnsubscribe); names != nil {
			unsubscribe = slices.Collect(names)
		}
		if names := got.initial(); names != nil {
			initial = maps.Collect(names)
		}
		again := &discoveryv3.DeltaDiscoveryRequest{
			Node: got.node, TypeUrl: got.url, ResponseNonce: got.nonce, InitialResourceVersions: initial,
			ResourceNamesSubscribe: subscribe, ResourceNamesUnsubscribe: unsubscribe,
		}
		if got.nack {
			again.ErrorDetail = &statuspb.Status{Message: got.message}
		}
		if diff := cmp.Diff(want, again, protocmp.Transform(), protocmp.IgnoreUnknown(),
			protocmp.IgnoreFields(want, "resource_locators_subscribe", "resource_locators_unsubscribe"),
			protocmp.IgnoreFields(&statuspb.Status{}, "code", "details")); diff != "" {
			t.Errorf("%x (-generated +ours):\n%s", b, diff)
		}
	})
}

// ignored reports whether b has fields that deltaRequest ignores: groups and locators.
func ignored(b []byte) bool {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		if kind == protowire.StartGroupType || kind == protowire.EndGroupType || number == 8 || number == 9 {
			return true
		}
		value := b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, value); n < 0 {
			return false
		}
		if number == requestInitial && kind == protowire.BytesType {
			if entry, _ := protowire.ConsumeBytes(value); ignored(entry) {
				return true
			}
		}
		b = value[n:]
	}
	return false
}
