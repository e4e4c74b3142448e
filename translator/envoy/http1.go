package envoy

import (
	"regexp"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const websocket = "websocket"

func http1() *corev3.Http1ProtocolOptions {
	return &corev3.Http1ProtocolOptions{
		// A server may ignore an Upgrade header (RFC 9110, section 7.8), such as curl's for h2c. By
		// default, Envoy answers 403.
		IgnoreHttp_11Upgrade: []*matcherv3.StringMatcher{byRegex(otherThan(websocket))},
	}
}

func acceptsHTTP10(v v1alpha1.HTTP10) bool { return v != v1alpha1.RejectHTTP10 }

func otherThan(word string) string {
	var alternatives []string
	for i := range word {
		alternatives = append(alternatives, regexp.QuoteMeta(word[:i])+"(?:[^"+word[i:i+1]+"].*)?")
	}
	return "(?is)" + strings.Join(append(alternatives, regexp.QuoteMeta(word)+".+"), "|")
}
