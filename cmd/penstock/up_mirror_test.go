package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A mirror is outside of the pool, and no member: its copies have nothing that a picker or a gateway adds for these.
func TestImport_CopiesHaveNoHeadersOfPickersAndMembers(t *testing.T) {
	t.Parallel()
	east, west := newExportingCluster(t, "east"), newExportingCluster(t, "west")
	copies := make(chan http.Header, 100)
	mirror := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { copies <- r.Header.Clone() }))
	t.Cleanup(mirror.Close)
	port := freePort(t)
	files := map[string]string{"gateway.yaml": gatewayYAML("gw", port), "mirror.yaml": serviceYAML("mirror", mirror.Listener.Addr().String()), "policy.yaml": fmt.Sprintf(leastLoad, "load")}
	for _, name := range []string{"order", "load"} {
		files[name+".yaml"] = fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %[1]s}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /%[1]s}}]
    filters:
    - {type: RequestMirror, requestMirror: {backendRef: {name: mirror, port: 80}}}
    - {type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}
    backendRefs: [%[2]s]
---
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: %[1]s}
status:
  clusters:
%[3]s`, name, toImport(name), east.entry("EndpointMode", 1)+west.entry("EndpointMode", 1))
	}
	up(t, files)
	for _, name := range []string{"order", "load"} {
		answers(t, local(port)+"/"+name, http.StatusOK)
		for header := range <-copies {
			switch header = strings.ToLower(header); {
			case strings.HasPrefix(header, "penstock-"), strings.HasPrefix(header, "x-penstock-"), header == "x-gateway-destination-endpoint":
				t.Errorf("the copy of a request to import %s has the header %s", name, header)
			}
		}
	}
}
