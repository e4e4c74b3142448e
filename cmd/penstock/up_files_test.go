package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/modelserver"
)

func TestLastGood_NoRequestFailsWhileFilesAreInvalidFixedAndMoved(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	files := chatFiles(port, serverNamed(t, "pod-1"))
	s := up(t, files)
	requests := sendTraffic(t, local(port))
	requests.flows(t, 5)

	// Invalid YAML: the last good version stays in effect.
	s.write("route.yaml", strings.Replace(files["route.yaml"], "spec:", "spec: [", 1))
	s.errs.expect(t, "error: "+s.dir+"/route.yaml:")
	requests.flows(t, 5)
	s.write("pool.yaml", strings.Replace(files["pool.yaml"], "8000", "80000", 1))
	s.errs.expect(t,
		s.dir+
			"/pool.yaml:6: InferencePool default/chat spec.targetPorts[0].number: must be at most 65535, is "+
			"80000; write ")
	s.write("gateway.yaml", strings.Replace(files["gateway.yaml"], "listeners:", "listenres:", 1))
	s.errs.expect(t, "listenres")
	requests.flows(t, 5)
	// Files without an object: an editor's temporary file, a text, an empty file.
	s.write(".route.yaml.swp", "binary\x00")
	s.write("notes.txt", "kind: nothing")
	s.write("empty.yaml", "")
	requests.flows(t, 5)

	s.write("pool.yaml", files["pool.yaml"])
	s.write("gateway.yaml", files["gateway.yaml"])
	s.write("route.yaml",
		strings.Replace(files["route.yaml"], "filters: [",
			"filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: x-version, "+
				"value: two}]}}, ", 1))
	s.errs.expect(t, "all errors and warnings are resolved")
	eventually(t, "the new version is live", func() error {
		if got, err := chat(t.Context(), local(port)); err != nil || got.header.Get("x-version") != "two" {
			return fmt.Errorf("got %v %v, want x-version two", got.header, err)
		}
		return nil
	})
	// The pool moves to another file: first the copy appears, then the original is deleted.
	s.write("moved.yaml", files["pool.yaml"])
	requests.flows(t, 5)
	s.remove("pool.yaml")
	requests.flows(t, 20)
	requests.end(t)
}

func TestHTTPRoute_DeletedStopsServingAndRestoredServes(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	files := chatFiles(port, serverNamed(t, "pod-1"))
	files["other.yaml"] = routeYAML("other", "/other", toPool("chat"))
	s := up(t, files)
	requests := sendTraffic(t, local(port))
	answers(t, local(port)+"/other", http.StatusOK)

	s.remove("route.yaml")
	answers(t, local(port), http.StatusNotFound)
	requests.stop() // from here on, requests fail
	if got, err := chat(t.Context(), local(port)+"/other"); err != nil || got.status != http.StatusOK {
		t.Errorf("the other route: %+v %v, want status %v", got, err, http.StatusOK)
	}
	s.write("route.yaml", files["route.yaml"])
	answers(t, local(port), http.StatusOK)

	// Without the pool, routes that name it answer 500, and a condition reports it.
	s.remove("pool.yaml")
	answers(t, local(port), http.StatusInternalServerError)
	eventually(t, "status names the missing pool", func() error {
		if out := s.penstock("status"); !strings.Contains(out, "BackendNotFound") ||
			!strings.Contains(out, "no InferencePool default/chat") {
			return errors.New(out)
		}
		return nil
	})
	s.write("pool.yaml", files["pool.yaml"])
	answers(t, local(port), http.StatusOK)
}

func TestLastGood_SurvivesARestart(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	files := chatFiles(port, serverNamed(t, "pod-1"))
	s := up(t, files)
	answers(t, local(port), http.StatusOK)
	s.write("route.yaml", strings.Replace(files["route.yaml"], "PathPrefix", "PathPrefx", 1))
	s.errs.expect(t, "PathPrefx")
	s.write("servers.yaml", "{{ an unrendered template")
	s.errs.expect(t, "servers.yaml:1")
	if code := s.stop(); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}

	s.start()
	s.out.expect(t, "serves at "+local(port))
	if got, err := chat(t.Context(), local(port)); err != nil || got.status != http.StatusOK ||
		got.header.Get("x-served-by") != "pod-1" {
		t.Errorf("after the restart: got %+v %v, want 200 from pod-1", got, err)
	}
	s.errs.expect(t, "PathPrefx")
	s.errs.expect(t, "servers.yaml:1")
}

func TestStreaming_ResponseSurvivesConfigurationChanges(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	slow := modelserver.Config{Name: "pod-1", InterTokenLatency: 50 * time.Millisecond}
	files := chatFiles(port, modelServer(t, slow))
	s := up(t, files)
	answers(t, local(port), http.StatusOK)

	// The response takes minutes. The test reads it during all changes.
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	arrived := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- stream(ctx, local(port), strings.Repeat("word ", 3000), func(string) {
			select {
			case arrived <- struct{}{}:
			case <-ctx.Done():
			}
		})
	}()
	next := func() {
		t.Helper()
		select {
		case <-arrived:
		case err := <-ended:
			t.Fatalf("the stream ended early, want it to go on: %v", err)
		case <-time.After(pollTimeout):
			t.Fatal("nothing more arrives")
		}
	}
	next()
	// The changes: endpoints, a PoolPolicy, a route with a pool and an import, a listener.
	second := serverNamed(t, "pod-2")
	s.write("more.yaml", strings.Replace(serversYAML("chat", second), "name: chat,", "name: more,", 1))
	next()
	s.write("policy.yaml", `apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: chat}
spec:
  targetRef: {name: chat}
  picker: {strategy: random, body: Buffered, failureMode: FailClose, full: {inFlight: 100}}
  spill: [{name: spare}]
`)
	s.write("spare.yaml", poolYAML("spare")+"---\n"+serversYAML("spare", second)+"---\n"+
		routeYAML("spare", "/spare", toPool("spare")))
	answers(t, local(port)+"/spare", http.StatusOK)
	next()
	extra := freePort(t)
	s.write("gateway.yaml",
		strings.Replace(files["gateway.yaml"], "protocol: HTTP}",
			fmt.Sprintf("protocol: HTTP}, {name: more, port: %d, protocol: HTTP}", extra), 1))
	answers(t, local(extra), http.StatusOK)
	next()
	s.remove("policy.yaml")
	s.write("route.yaml", routeYAML("chat", "/elsewhere", toPool("chat")))
	answers(t, local(port), http.StatusNotFound)
	for range 5 {
		next()
	}
}
