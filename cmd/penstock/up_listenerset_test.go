package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestListenerSet_AddsListenersWithoutClosingConnections(t *testing.T) {
	t.Parallel()
	port, own := freePort(t), freePort(t)
	files := chatFiles(port, serverNamed(t, "pod-1"))
	files["gateway.yaml"] = strings.Replace(files["gateway.yaml"], "  listeners:",
		"  allowedListeners: {namespaces: {from: All}}\n  listeners:", 1)
	s := up(t, files)
	requests := sendTraffic(t, local(port))
	requests.flows(t, 5)

	cert, key := certificate(t, "team.example.com")
	inTeam := func(text string) string {
		return strings.ReplaceAll(text, "metadata: {name", "metadata: {namespace: team, name")
	}
	s.write("team.yaml",
		inTeam(secretYAML("cert", cert, key)+"---\n"+serviceYAML("web", serverNamed(t, "team-pod"))+
			fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: listeners}
spec:
  parentRef: {name: gw, namespace: default}
  listeners:
  - {name: secure, port: %d, protocol: HTTPS, hostname: team.example.com, tls: {certificateRefs: [{name: cert}]}}
  - {name: clear, port: %d, protocol: HTTP, hostname: team.example.com}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web}
spec:
  parentRefs: [{kind: ListenerSet, name: listeners}]
  rules: [{backendRefs: [{name: web, port: 80}]}]
`, own, port)))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	eventually(t, "the team's own port is served", func() error {
		got, err := over(t.Context(), roots, own, "team.example.com", "team.example.com")
		if err == nil && (got.status != 200 || got.header.Get("x-served-by") != "team-pod") {
			err = fmt.Errorf("got %d from %s, want 200 from team-pod", got.status, got.header.Get("x-served-by"))
		}
		return err
	})
	requests.flows(t, 5)
	if out := s.penstock("status"); !strings.Contains(out, "team/listeners") {
		t.Errorf("status: got\n%s\nwant team/listeners", out)
	}

	s.remove("team.yaml")
	eventually(t, "the team's port is closed", func() error {
		if _, err := over(t.Context(), roots, own, "team.example.com", "team.example.com"); err == nil {
			return errors.New("it is still served")
		}
		return nil
	})
	requests.flows(t, 5)
	requests.end(t)
}
