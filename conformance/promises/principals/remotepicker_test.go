package principals

import (
	"strings"
	"testing"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// remotePicker is a pool's external picker. It writes its answers by ext_proc, and its gRPC health.
// Penstock's picker calls the picker of an import with undeclared servers (relayed). Envoy itself
// calls the picker of a pool (asked).
var remotePicker = principal{"remote picker", func(t testing.TB) []field {
	w := &walker{classes: remotePickerClasses}
	whole := func(m protoreflect.MessageDescriptor) bool {
		return !strings.HasPrefix(string(m.FullName()), "envoy.service.ext_proc.") && !wholeHeader[m.FullName()]
	}
	for _, by := range []string{"relayed", "asked"} {
		w.walkProto(by, (&extprocv3.ProcessingResponse{}).ProtoReflect().Descriptor(), whole)
	}
	for _, by := range []string{"relayed", "asked"} {
		w.fields = append(w.fields, field{path: by + ".endpoint", class: address})
	}
	for _, by := range []string{"relayed", "asked"} {
		w.fields = append(w.fields, field{path: by + ".content_length.request", class: number})
		w.fields = append(w.fields, field{path: by + ".content_length.response", class: number})
	}
	w.walkProto("health", (&healthv1.HealthCheckResponse{}).ProtoReflect().Descriptor(), whole)
	return w.done(t)
}}

// wholeHeader are messages outside of ext_proc whose fields are also cells.
var wholeHeader = map[protoreflect.FullName]bool{
	"envoy.config.core.v3.HeaderMap":                           true,
	"envoy.config.core.v3.HeaderValue":                         true,
	"envoy.config.core.v3.HeaderValueOption":                   true,
	"envoy.type.v3.HttpStatus":                                 true,
	"envoy.extensions.filters.http.ext_proc.v3.ProcessingMode": true,
}

var remotePickerClasses = map[string]class{
	"key":              name, // key may name a header that Envoy or Penstock reads
	"remove_headers[]": name,
}

func TestPrincipals_RemotePickerChangesNoOtherRequests(t *testing.T) {
	newPickers(t).play()
}
