package principals

import (
	"strings"
	"testing"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// remotePicker is the picker of a pool that is not Penstock's: what it answers by ext_proc. Penstock's picker asks that of
// an import whose servers are not declared (relayed), and Envoy asks that of a pool itself (asked).
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
	return w.done(t)
}}

// wholeHeader are messages outside of ext_proc whose own fields matter.
var wholeHeader = map[protoreflect.FullName]bool{
	"envoy.config.core.v3.HeaderMap":                           true,
	"envoy.config.core.v3.HeaderValue":                         true,
	"envoy.config.core.v3.HeaderValueOption":                   true,
	"envoy.type.v3.HttpStatus":                                 true,
	"envoy.extensions.filters.http.ext_proc.v3.ProcessingMode": true,
}

var remotePickerClasses = map[string]class{
	"key":              name, // another's: a header that Envoy or Penstock reads
	"remove_headers[]": name,
}

// No answer of another picker leads to another pool's servers, or changes another pool's requests.
func TestPrincipals_RemotePickerChangesNobodyElsesRequests(t *testing.T) {
	newPickers(t).play()
}
