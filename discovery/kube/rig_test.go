package kube_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

const gatewayGroup = "gateway.networking.k8s.io"

// rig is a Source that follows a small API server.
type rig struct {
	*testing.T
	api    *kubetest.Server
	store  *store.Store
	source *kube.Source

	mu   sync.Mutex
	said []report.Report
}

// begin installs the kinds of Gateway API's core and runs a source that has synced, unless more is to be prepared.
func begin(t *testing.T, prepare func(*kubetest.Server)) *rig {
	t.Helper()
	r := &rig{T: t, api: kubetest.New(t)}
	for _, plural := range []string{"gatewayclasses", "gateways", "httproutes"} {
		r.api.Install(gatewayGroup, plural, "v1")
	}
	if prepare != nil {
		prepare(r.api)
	}
	var err error
	r.store = store.New()
	r.source, err = kube.New(kube.Config{REST: r.api.Config(), Store: r.store, Log: slog.New(slog.DiscardHandler), Report: func(reports []report.Report) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.said = reports
	}})
	if err != nil {
		t.Fatal(err)
	}
	kubetest.Run(t, r.source.Run)
	return r
}

// synced waits for the first sync.
func (r *rig) synced() *rig {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	if err := r.source.Synced(ctx); err != nil {
		r.Fatalf("not synced: %v; it says %v", err, r.reports())
	}
	return r
}

func (r *rig) reports() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(r.said)
}

const patience = 30 * time.Second

// eventually waits until a condition holds, which says what is missing.
func (r *rig) eventually(missing func() string) {
	r.Helper()
	deadline := time.Now().Add(patience)
	for {
		text := missing()
		if text == "" {
			return
		}
		if time.Now().After(deadline) {
			r.Fatal(text)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// has waits until the store has an object, or has it no more.
func (r *rig) has(k store.Kind, id string, want bool) {
	r.Helper()
	r.eventually(func() string {
		if _, ok := k.Object(r.store.View(), id); ok != want {
			return fmt.Sprintf("%s %s in the store: %v", k.Kind(), id, ok)
		}
		return ""
	})
}

func route(name string) string {
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: default, name: %s, annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}", mine: "1"}, managedFields: [{manager: me}]}
spec:
  parentRefs: [{name: gw}]
`, name)
}
