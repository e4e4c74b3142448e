package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	tracing "go.opentelemetry.io/otel/trace/noop"

	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// pickAlone runs a stand-alone picker for a small API server.
func pickAlone(t *testing.T, api *kubetest.Server, pool string) *App {
	t.Helper()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	cfg := Config{Picker: listen(), Tracer: tracing.NewTracerProvider(), Log: slog.New(slog.DiscardHandler)}
	a, err := NewStandAlone(cfg, StandAlone{REST: api.Config(), Pool: pool, Group: store.InferencePools.Group()})
	if err != nil {
		t.Fatal(err)
	}
	kubetest.Run(t, a.Run)
	return a
}

// endpoints waits until the picker has the endpoints of a pool alone.
func (a *App) endpoints(t *testing.T, pool string, want ...string) {
	t.Helper()
	poll.NoError(t, fmt.Sprint("the picker has ", want, " of ", pool), poll.Limit, func() error {
		var got []string
		for _, v := range a.picker.Explain(pool, nil).Verdicts {
			got = append(got, v.Address)
		}
		if slices.Sort(got); !slices.Equal(got, want) || !slices.Equal(a.picker.Pools(), []string{pool}) {
			return fmt.Errorf("%s of %s", got, a.picker.Pools())
		}
		return nil
	})
}

func TestStandAlonePicker_NeedsPoolsAndPodsOfOneNamespaceAlone(t *testing.T) {
	t.Parallel()
	api := kubetest.New(t)
	api.Fail(func(_, path string) int { // what the Role of llm-d's EPP allows, and kinds that are not installed
		switch {
		case strings.HasSuffix(path, "/namespaces/default/pods"), strings.HasSuffix(path, "/namespaces/default/inferencepools") && strings.Contains(path, "networking.k8s.io"):
			return 0
		case strings.Contains(path, "penstock.dev"):
			return http.StatusNotFound
		}
		return http.StatusForbidden
	})
	const pool = "{apiVersion: inference.networking.k8s.io/v1, kind: InferencePool, metadata: {namespace: default, name: %s}, spec: {selector: {matchLabels: {app: chat}}, targetPorts: [{number: 8001}], endpointPickerRef: {name: epp, port: {number: 9002}}}}"
	const pod = "{apiVersion: v1, kind: Pod, metadata: {namespace: default, name: chat-%d, labels: {app: chat}}, status: {podIP: 10.244.0.%[1]d, phase: Running, conditions: [{type: Ready, status: \"True\"}]}}"
	api.Apply(t, "inferencepools", fmt.Sprintf(pool, "chat"))
	api.Apply(t, "inferencepools", fmt.Sprintf(pool, "other"))
	api.Apply(t, "pods", fmt.Sprintf(pod, 1))
	a := pickAlone(t, api, "default/chat")
	a.endpoints(t, "default/chat", "10.244.0.1:8001")
	api.Apply(t, "pods", fmt.Sprintf(pod, 2))
	a.endpoints(t, "default/chat", "10.244.0.1:8001", "10.244.0.2:8001")
	if asked := api.Asked("customresourcedefinitions"); len(asked) > 0 {
		t.Errorf("it read CRDs, which the Role does not allow: %s", asked)
	}
}

func TestStandAlonePicker_PoolThatComesLaterIsPickedFrom(t *testing.T) {
	t.Parallel()
	api := kubetest.New(t)
	a := pickAlone(t, api, "default/chat")
	ctx, cancel := context.WithTimeout(t.Context(), poll.Limit)
	defer cancel()
	if err := a.After(ctx, 0); err != nil {
		t.Fatal(err)
	}
	for _, o := range clusterObjects[3:] {
		api.Apply(t, o.plural, strings.Replace(o.text, "phase: Running", `phase: Running, conditions: [{type: Ready, status: "True"}]`, 1))
	}
	a.endpoints(t, "default/chat", "10.244.0.1:8001")
}
