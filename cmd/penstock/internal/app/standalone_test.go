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
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

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
	a, err := NewStandAlone(cfg,
		StandAlone{REST: api.Config(), Pool: objectid.MustParseTarget(pool).Pool, Group: store.InferencePools.Group()})
	if err != nil {
		t.Fatal(err)
	}
	kubetest.Run(t, a.Run)
	return a
}

func (a *App) endpoints(t *testing.T, pool string, want ...string) {
	t.Helper()
	poll.NoError(t, fmt.Sprint("the picker has ", want, " of ", pool), poll.Limit, func() error {
		var got []string
		for _, v := range a.picker.Explain(pool, nil).Verdicts {
			got = append(got, v.Address)
		}
		if slices.Sort(got); !slices.Equal(got, want) || !slices.Equal(a.picker.Pools(), []string{pool}) {
			return fmt.Errorf("got %s of %s, want %s of %s", got, a.picker.Pools(), want, pool)
		}
		return nil
	})
}

func TestStandAlonePicker_NeedsPoolsAndPodsOfOneNamespaceAlone(t *testing.T) {
	t.Parallel()
	api := kubetest.New(t)
	api.Fail(func(_, path string) int { // forbidden by the Role of llm-d's EPP, or not installed
		switch {
		case strings.HasSuffix(path, "/namespaces/default/pods"),
			strings.HasSuffix(path, "/namespaces/default/inferencepools") &&
				strings.Contains(path, "networking.k8s.io"):
			return 0
		case strings.Contains(path, "penstock.dev"):
			return http.StatusNotFound
		}
		return http.StatusForbidden
	})
	const pool = "{apiVersion: inference.networking.k8s.io/v1, kind: InferencePool, metadata: {namespace: default, " +
		"name: %s}, spec: {selector: {matchLabels: {app: chat}}, targetPorts: [{number: 8001}], endpointPickerRef: " +
		"{name: epp, port: {number: 9002}}}}"
	const pod = "{apiVersion: v1, kind: Pod, metadata: {namespace: default, name: chat-%d, labels: {app: chat}}, " +
		"status: {podIP: 10.244.0.%[1]d, phase: Running, conditions: [{type: Ready, status: \"True\"}]}}"
	api.Apply(t, "inferencepools", fmt.Sprintf(pool, "chat"))
	api.Apply(t, "inferencepools", fmt.Sprintf(pool, "other"))
	api.Apply(t, "pods", fmt.Sprintf(pod, 1))
	a := pickAlone(t, api, "default/chat")
	a.endpoints(t, "default/chat", "10.244.0.1:8001")
	api.Apply(t, "pods", fmt.Sprintf(pod, 2))
	a.endpoints(t, "default/chat", "10.244.0.1:8001", "10.244.0.2:8001")
	if asked := api.Asked("customresourcedefinitions"); len(asked) > 0 {
		t.Errorf("it read CRDs, which the Role does not allow, want none: %s", asked)
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
		api.Apply(t, o.plural,
			strings.Replace(o.text, "phase: Running", `phase: Running, conditions: [{type: Ready, status: "True"}]`, 1))
	}
	a.endpoints(t, "default/chat", "10.244.0.1:8001")
}

func TestStandAlonePicker_FindsScorersBehindServices(t *testing.T) {
	t.Parallel()
	api := kubetest.New(t)
	for _, o := range clusterObjects[3:] {
		api.Apply(t, o.plural,
			strings.Replace(o.text, "phase: Running", `phase: Running, conditions: [{type: Ready, status: "True"}]`, 1))
	}
	api.Apply(t, "poolpolicies",
		"{apiVersion: penstock.dev/v1alpha1, kind: PoolPolicy, metadata: {namespace: default, name: chat}, spec: "+
			"{targetRef: {name: chat}, picker: {strategy: plugins, plugins: {scorers: [{type: external-scorer, "+
			"parameters: {service: scorer, port: 9003}}]}}}}")
	a := pickAlone(t, api, "default/chat")
	resolved := func(status string) {
		t.Helper()
		poll.NoError(t, "ResolvedRefs of the policy is "+status, poll.Limit, func() error {
			got, _ := a.board.Get(report.Ref{Group: v1alpha1.Group, Kind: "PoolPolicy", Namespace: "default",
				Name: "chat"})
			if !slices.ContainsFunc(got.Conditions,
				func(c report.Condition) bool { return c.Type == "ResolvedRefs" && c.Status == status }) {
				return fmt.Errorf("got %+v, want ResolvedRefs %s", got, status)
			}
			return nil
		})
	}
	resolved(report.False)
	api.Apply(t, "services",
		"{apiVersion: v1, kind: Service, metadata: {namespace: default, name: scorer}, spec: {ports: [{name: grpc, "+
			"port: 9003, appProtocol: kubernetes.io/h2c}]}}")
	resolved(report.True)
	api.Apply(t, "endpointslices",
		"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: default, name: scorer-1, "+
			"labels: {kubernetes.io/service-name: scorer}}, addressType: IPv4, ports: [{name: grpc, port: 9003}], "+
			"endpoints: [{addresses: [10.244.0.9]}]}")
	poll.NoError(t, "the pool reads the scorer's addresses", poll.Limit, func() error {
		for _, row := range a.rows("default/chat") {
			if slices.ContainsFunc(row.Reads, func(read string) bool {
				return strings.Contains(read, "EndpointSlice") && strings.Contains(read, "scorer")
			}) && len(api.Asked("endpointslices")) > 0 {
				return nil
			}
		}
		return fmt.Errorf("got %+v, want a row of EndpointSlice and scorer", a.rows("default/chat"))
	})
}
