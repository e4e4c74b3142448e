package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A parent with a hostname receives it as authority and as TLS server name. Without one, it
// receives the client's authority.
func TestInferencePoolImport_ParentIsAskedForItsHostname(t *testing.T) {
	t.Parallel()
	parent := func(start func(http.Handler) *httptest.Server) (port string) {
		server := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sni := "-"
			if r.TLS != nil {
				sni = r.TLS.ServerName
			}
			w.Header().Set("x-asked", r.Host+" "+sni)
		}))
		t.Cleanup(server.Close)
		_, port, _ = net.SplitHostPort(server.Listener.Addr().String())
		return port
	}
	secured, open := parent(httptest.NewTLSServer), parent(httptest.NewServer)
	port := freePort(t)
	files := chatFiles(port, serverNamed(t, "here-1"))
	cluster := func(name, more, port, protocol string) string {
		return fmt.Sprintf(`  - name: %s
    routingMode: ParentMode
    parents: [{%sservice: {addresses: [127.0.0.1], ports: [{number: %s, appProtocol: %s}]}}]
`, name, more, port, protocol)
	}
	object := func(name string, clusters ...string) string {
		return fmt.Sprintf(
			"apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: "+
				"%s}\nstatus:\n  clusters:\n%s---\n", name, strings.Join(clusters, "")) +
			routeYAML(name, "/"+name, "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: "+name+
				"}") + "---\n"
	}
	files["imports.yaml"] = object("tls", cluster("west", "hostname: llm.west.example, ", secured, "https")) +
		object("plain", cluster("west", "hostname: llm.west.example, ", open, "http")) +
		object("none", cluster("west", "", open, "http")) +
		object("several", cluster("west", "hostname: llm.west.example, ", secured, "https"),
			cluster("east", "hostname: llm.east.example, ", secured, "https"), cluster("north", "", open, "http"))
	s := up(t, files)
	clientsHost := strings.TrimPrefix(local(port), "http://")
	for path, want := range map[string][]string{
		"/tls": {"llm.west.example llm.west.example"}, "/plain": {"llm.west.example -"}, "/none": {clientsHost + " -"},
		"/several": {"llm.west.example llm.west.example", "llm.east.example llm.east.example", clientsHost + " -"},
	} {
		seen := map[string]bool{}
		eventually(t, path+" asks for "+fmt.Sprint(want), func() error {
			got, err := chat(t.Context(), local(port)+path)
			if err != nil || got.status != http.StatusOK {
				return fmt.Errorf("got %d %s %v, want 200; status:\n%s", got.status, got.body, err,
					s.penstock("status"))
			}
			seen[got.header.Get("x-asked")] = true
			for _, one := range want {
				if !seen[one] {
					return fmt.Errorf("asked for %v, want %v", seen, want)
				}
			}
			if len(seen) > len(want) {
				t.Fatalf("%s: asked for %v, want %v", path, seen, want)
			}
			return nil
		})
	}
}
