package picker

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestLease_WithoutAccessLogEndsWithStream(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Default: true, Strategy: "round-robin", Fallbacks: 1,
			Endpoints: specs("10.0.0.1:80", "10.0.0.2:80")})
	stream, cancel := call(t, dialPicker(t, address))
	exchange(t, stream, headerMessage(nil))
	counts := func() [2]int64 { return [2]int64{inFlight(p, "10.0.0.1:80"), inFlight(p, "10.0.0.2:80")} }
	if got := counts(); got != [2]int64{1, 0} {
		t.Errorf("after the pick: %v, want %v", got, [2]int64{1, 0})
	}
	served, _ := structpb.NewStruct(map[string]any{"x-gateway-destination-endpoint-served": "10.0.0.2:80"})
	exchange(t, stream, &extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocv3.HttpHeaders{
			Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: ":status", RawValue: []byte("200")}}}}},
		MetadataContext: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy.lb": served}},
	})
	if got := counts(); got != [2]int64{0, 1} {
		t.Errorf("after the second endpoint served: %v, want %v", got, [2]int64{0, 1})
	}
	cancel()
	poll.Until(t, "the stream's end", func() bool { return counts() == [2]int64{} })
}
