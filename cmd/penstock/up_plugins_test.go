package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/scoring/scoringtest"
)

// zonePlugins is an EndpointPickerConfig without metadata: it keeps the servers of one zone.
func zonePlugins(zone string) string {
	return `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: label-selector-filter
  name: zone
  parameters: {matchLabels: {zone: ` + zone + `}}
- type: prefix-cache-scorer
- type: queue-scorer
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: zone
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: queue-scorer, weight: 2}
`
}

// named gives a document the name zone.
func named(doc string) string {
	return strings.Replace(doc, "plugins:", "metadata: {name: zone}\nplugins:", 1)
}

func inConfigMap(doc string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: zone}\ndata:\n  plugins.yaml: |\n    " + strings.ReplaceAll(strings.TrimSpace(doc), "\n", "\n    ") + "\n"
}

func zonePolicy(ref string) string {
	return `apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: chat}
spec:
  targetRef: {name: chat}
  picker: {strategy: plugins, configRef: ` + ref + `}
`
}

func TestPoolPolicy_PluginsAreReloadedAndKeepLastGood(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	files := chatFiles(port)
	files["servers.yaml"] = strings.Replace(serversYAML("east", modelServer(t, sim.Config{Name: "pod-east"})), "app: east", "app: chat, zone: east", 1) +
		"---\n" + strings.Replace(serversYAML("west", modelServer(t, sim.Config{Name: "pod-west"})), "app: west", "app: chat, zone: west", 1)
	files["policy.yaml"] = zonePolicy("{kind: EndpointPickerConfig, name: zone}")
	files["zone.yaml"] = named(zonePlugins("east"))
	s := up(t, files)
	servedBy := func(pod string) {
		t.Helper()
		eventually(t, "requests go to "+pod, func() error {
			for range 5 {
				got, err := chat(t.Context(), local(port))
				if err != nil || got.status != http.StatusOK || got.header.Get("x-served-by") != pod {
					return fmt.Errorf("%d from %q: %s %v", got.status, got.header.Get("x-served-by"), got.body, err)
				}
			}
			return nil
		})
	}
	reported := func(want string) {
		t.Helper()
		eventually(t, "status reports "+want, func() error {
			if text := s.penstock("status", "-o", "json"); !strings.Contains(text, want) {
				return fmt.Errorf("%s", text)
			}
			return nil
		})
	}
	servedBy("pod-east")
	s.write("zone.yaml", named(zonePlugins("west")))
	servedBy("pod-west")

	// Invalid in the folder: the file's last good version stays.
	s.write("zone.yaml", named(strings.Replace(zonePlugins("east"), "queue-scorer", "latency-scorer", 1)))
	reported("latency-scorer")
	servedBy("pod-west")

	// In a ConfigMap, whose text is first read when it is used: the picker's last valid plugins stay.
	s.write("zone.yaml", inConfigMap(zonePlugins("east")))
	s.write("policy.yaml", zonePolicy("{name: zone}"))
	servedBy("pod-east")
	s.write("zone.yaml", inConfigMap(strings.Replace(zonePlugins("west"), "queue-scorer", "latency-scorer", 1)))
	reported("InvalidConfigRef")
	servedBy("pod-east")
	s.write("zone.yaml", inConfigMap(zonePlugins("west")))
	servedBy("pod-west")

	var e struct {
		Picks map[string]picker.Explanation `json:"picks"`
	}
	url := local(port) + "/v1/chat/completions"
	if err := json.Unmarshal([]byte(s.penstock("explain", url, "-o", "json")), &e); err != nil {
		t.Fatal(err)
	}
	kept, out := 0, 0
	for _, v := range e.Picks["default/chat"].Verdicts {
		switch {
		case v.Out == "zone":
			out++
		case len(v.Scores) == 2 && v.Scores[1].Plugin == "queue-scorer" && v.Scores[1].Weight == 2 && v.Score == 2:
			kept++
		}
	}
	if kept != 1 || out != 1 {
		t.Errorf("explained: %+v", e.Picks)
	}
	if text := s.penstock("explain", url); !strings.Contains(text, "strategy plugins") || !strings.Contains(text, "score 2.000 (prefix-cache-scorer 0.000 x 3, queue-scorer 1.000 x 2)") || !strings.Contains(text, "out: zone") {
		t.Errorf("explain:\n%s", text)
	}
}

// The scorer prefers pod-2, by the address that it is asked about.
func TestPoolPolicy_ExternalScorerIsAsked(t *testing.T) {
	t.Parallel()
	first, second := modelServer(t, sim.Config{Name: "pod-1"}), modelServer(t, sim.Config{Name: "pod-2"})
	at := scoringtest.Start(t, func(_ context.Context, request []byte) ([]byte, error) {
		var scores []float64
		for _, c := range scoringtest.Fields(request, 3) {
			score := 0.0
			if string(scoringtest.Fields(c, 1)[0]) == second {
				score = 1
			}
			scores = append(scores, score)
		}
		return scoringtest.Scores(scores...), nil
	})
	port := freePort(t)
	files := chatFiles(port, first, second)
	files["policy.yaml"] = `apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: chat}
spec:
  targetRef: {name: chat}
  picker: {strategy: plugins, plugins: {scorers: [{type: external-scorer, parameters: {service: scorer, port: 9003}}]}}
`
	s := up(t, files)
	answers(t, local(port), http.StatusOK) // without the scorer, too
	eventually(t, "status reports the missing Service", func() error {
		if text := s.penstock("status", "-o", "json"); !strings.Contains(text, "external-scorer: there is no Service default/scorer") || !strings.Contains(text, "InvalidScorerRef") {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
	s.write("scorer.yaml", fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: scorer}
spec:
  ports: [{name: grpc, port: 9003, appProtocol: kubernetes.io/h2c}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: scorer-1, labels: {kubernetes.io/service-name: scorer}}
addressType: IPv4
ports: [{name: grpc, port: %d}]
endpoints: [{addresses: [127.0.0.1]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: scorer-0, labels: {kubernetes.io/service-name: scorer}}
addressType: IPv4
ports: [{name: grpc, port: %d}]
endpoints: [{addresses: [127.0.0.1]}]
`, at.Port(), 1)) // at port 1 nothing listens
	eventually(t, "the scorer decides", func() error {
		for range 10 {
			got, err := chat(t.Context(), local(port))
			if err != nil || got.status != http.StatusOK || got.header.Get("x-served-by") != "pod-2" {
				return fmt.Errorf("%d from %q: %s %v", got.status, got.header.Get("x-served-by"), got.body, err)
			}
		}
		return nil
	})
	// On a busy machine the scorer may answer a pick too late. Its servers then have no scores.
	eventually(t, "explain has the scores of a pick", func() error {
		if got, err := chat(t.Context(), local(port)); err != nil || got.status != http.StatusOK {
			return fmt.Errorf("%d %w", got.status, err)
		}
		text := s.penstock("explain", local(port)+"/v1/chat/completions")
		if !strings.Contains(text, "score 1.000 (external-scorer 1.000 x 1)") || !strings.Contains(text, "score 0.000 (external-scorer 0.000 x 1)") || !strings.Contains(text, "are those of the pick at 20") {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
}
