package kube_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

const gatewayGroup = "gateway.networking.k8s.io"

// rig is a Source that follows a small API server.
type rig struct {
	*testing.T
	api    *kubetest.Server
	store  *store.Store
	source *kube.Source

	mu       sync.Mutex
	reported []report.Report
}

// begin installs the core kinds of Gateway API, calls prepare and runs a source.
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
		r.reported = reports
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
	ctx, cancel := context.WithTimeout(r.Context(), poll.Limit)
	defer cancel()
	if err := r.source.Synced(ctx); err != nil {
		r.Fatalf("not synced: %v; reports: %v", err, r.reports())
	}
	return r
}

// want adds demands and waits until they are met.
func (r *rig) want(demands []kube.Demand) {
	r.Helper()
	for i, read := range r.source.Want(demands, nil) {
		select {
		case <-read:
		case <-time.After(poll.Limit):
			r.Fatalf("%v is not read", demands[i])
		}
	}
	r.flush()
}

// park ends the phase in which every object is in the store.
func (r *rig) park() {
	r.Helper()
	r.source.Park()
	r.flush()
}

func (r *rig) flush() {
	r.Helper()
	if err := r.source.Flush(); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) reports() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(r.reported)
}

// eventually waits until missing, which describes what is missing, returns "".
func (r *rig) eventually(missing func() string) {
	r.Helper()
	poll.NoError(r, "the source catches up", poll.Limit, func() error {
		if text := missing(); text != "" {
			return errors.New(text)
		}
		return nil
	})
}

// has waits until the store has an object, or does not have it.
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
