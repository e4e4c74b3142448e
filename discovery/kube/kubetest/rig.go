package kubetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// GatewayGroup is the API group of Gateway API.
const GatewayGroup = "gateway.networking.k8s.io"

// Rig runs a kube.Source that reads a Server's objects into a store, until its test ends.
type Rig struct {
	testing.TB
	API    *Server
	Store  *store.Store
	Source *kube.Source

	mu       sync.Mutex
	reported []report.Report
}

// Follow installs the core kinds of Gateway API, calls prepare (optional) and runs a Source for
// namespaces (default: all).
func Follow(t testing.TB, prepare func(*Server), namespaces ...string) *Rig {
	t.Helper()
	r := &Rig{TB: t, API: New(t), Store: store.New()}
	for _, plural := range []string{"gatewayclasses", "gateways", "httproutes"} {
		r.API.Install(GatewayGroup, plural, "v1")
	}
	if prepare != nil {
		prepare(r.API)
	}
	var err error
	r.Source, err = kube.New(kube.Config{REST: r.API.Config(), Store: r.Store, Namespaces: namespaces,
		Log: slog.New(slog.DiscardHandler), Report: func(reports []report.Report) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.reported = reports
		}})
	if err != nil {
		t.Fatal(err)
	}
	Run(t, r.Source.Run)
	return r
}

// Synced waits until the Source has read all installed kinds.
func (r *Rig) Synced() *Rig {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), poll.Limit)
	defer cancel()
	if err := r.Source.Synced(ctx); err != nil {
		r.Fatalf("got %v, want it synced; reports: %v", err, r.Reports())
	}
	return r
}

// Reports returns the text of the newest findings about the cluster itself.
func (r *Rig) Reports() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(r.reported)
}

// Eventually waits until missing, which describes missing objects, returns "".
func (r *Rig) Eventually(missing func() string) {
	r.Helper()
	poll.NoError(r, "the API server or the store has it", poll.Limit, func() error {
		if text := missing(); text != "" {
			return errors.New(text)
		}
		return nil
	})
}

// Has waits until the store has an object (want is true) or lacks it.
func (r *Rig) Has(k store.Kind, id string, want bool) {
	r.Helper()
	r.Eventually(func() string {
		if _, ok := k.Object(r.Store.View(), id); ok != want {
			return fmt.Sprintf("%s %s in the store: %v", k.Kind(), id, ok)
		}
		return ""
	})
}

// Route returns an HTTPRoute in namespace default. discovery/kube drops some fields of its
// metadata.
func Route(name string) string {
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: default, name: %s, annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}", mine: "1"}, managedFields: [{manager: me}]}
spec:
  parentRefs: [{name: gw}]
`, name)
}
