package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A Gateway answers 404, because its routes have another hostname. The import has a finding until
// the hostname is set or other responses arrive.
func TestParentMode_Repeated404sAreAFindingOfTheImport(t *testing.T) {
	t.Parallel()
	var every atomic.Bool // whether the Gateway serves all hosts
	parent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "llm.west.example" && !every.Load() {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(parent.Close)
	_, at, _ := net.SplitHostPort(parent.Listener.Addr().String())
	model := httptest.NewServer(http.NotFoundHandler()) // a local server: its 404s cause no finding
	t.Cleanup(model.Close)
	port := freePort(t)
	files := chatFiles(port, serverNamed(t, "here-1"))
	cluster := func(name, hostname string) string {
		return fmt.Sprintf(
			"  - {name: %s, routingMode: ParentMode, parents: [{namespace: infra, name: inference, %sservice: "+
				"{addresses: [127.0.0.1], ports: [{number: %s}]}}]}\n", name, hostname, at)
	}
	object := func(name string, clusters ...string) string {
		return fmt.Sprintf(
			"apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: "+
				"%s}\nstatus:\n  clusters:\n%s---\n", name, strings.Join(clusters, "")) +
			routeYAML(name, "/"+name, "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: "+name+
				"}") + "---\n"
	}
	files["one.yaml"] = object("one", cluster("west", ""))
	files["several.yaml"] = object("several", cluster("west", "hostname: llm.west.example, "), cluster("north", ""))
	files["servers.yaml"] = serversYAML("none", strings.TrimPrefix(model.URL, "http://")) + "---\n" + poolYAML("none") +
		"---\n" + routeYAML("none", "/none", toPool("none"))
	s := up(t, files)
	answer := func() {
		for _, path := range []string{"/one", "/several", "/none"} {
			for range 10 {
				if _, err := chat(t.Context(), local(port)+path); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	found := func(object, field string, want bool) error {
		status := s.penstock("status")
		for line := range strings.Lines(status) {
			if strings.Contains(line, "InferencePoolImport default/"+object+" "+field) &&
				strings.Contains(line, "gateway infra/inference at 127.0.0.1:"+at+" answers 404 repeatedly") &&
				strings.Contains(line, fmt.Sprintf("host %q", strings.TrimPrefix(local(port), "http://"))) &&
				strings.Contains(line, "; set parents[].hostname") {
				if !want {
					return fmt.Errorf("got the line %s, want none", line)
				}
				return nil
			}
		}
		if want {
			return fmt.Errorf("no line with %s %s, want one in\n%s", object, field, status)
		}
		return nil
	}
	check := func(one, several bool) func() error {
		return func() error {
			answer()
			if err := found("one", "status.clusters[0].parents[0].hostname: cluster west", one); err != nil {
				return err
			}
			return found("several", "status.clusters[1].parents[0].hostname: cluster north", several)
		}
	}
	eventually(t, "both imports have the finding", check(true, true))
	if n := strings.Count(s.penstock("status"), "answers 404"); n != 2 {
		t.Errorf("%d findings, want 2:\n%s", n, s.penstock("status"))
	}
	s.write("one.yaml", object("one", cluster("west", "hostname: llm.west.example, ")))
	eventually(t, "the hostname resolves one", check(false, true))
	every.Store(true)
	eventually(t, "other answers resolve the other", check(false, false))
}
