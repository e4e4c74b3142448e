package pipeline_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/cmd/penstock/internal/pipeline"
	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/xds/cache"
)

// apiServer is a Source whose reads end when the test lets them.
type apiServer struct {
	mu    sync.Mutex
	slow  bool
	reads map[kube.Demand]chan struct{}
}

func (s *apiServer) Want(wanted, _ []kube.Demand) (out []<-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range wanted {
		c := make(chan struct{})
		if s.slow && d.Table == "Secret" {
			s.reads[d] = c
		} else {
			close(c)
		}
		out = append(out, c)
	}
	return out
}

func (s *apiServer) Flush() error    { return nil }
func (s *apiServer) Park()           {}
func (s *apiServer) Forbidden() bool { return false }

func (s *apiServer) answer(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.reads[kube.Demand{Table: "Secret", Index: store.ByID, Key: secret}])
}

type rig struct {
	*testing.T
	store *store.Store
	api   *apiServer
	mu    sync.Mutex
	seen  []string
}

func begin(t *testing.T, objects ...store.Op) *rig {
	r := &rig{T: t, store: store.New(), api: &apiServer{reads: map[kube.Demand]chan struct{}{}}}
	r.apply(objects...)
	tr := pipeline.NewTranslation(translator.Config{AnyController: true, Slices: true, OnDemand: kube.OnDemand()})
	record := delivery.On(delivery.Report, func(_ context.Context, c *delivery.Change) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, rep := range c.Output.Reports {
			if rep.Owner.Kind == store.Gateways.Kind() {
				r.seen = append(r.seen, rep.Owner.Key())
			}
		}
	})
	line := pipeline.New(pipeline.Config{
		Store: r.store, Translation: tr, Delivery: delivery.New(record), Cache: cache.New(cache.Config{}),
		Fetch:   pipeline.NewFetch(r.api, tr, slog.New(slog.DiscardHandler)),
		Observe: func(float64) {}, Tracer: noop.NewTracerProvider().Tracer(""), Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = line.Run(ctx) // fails only when ctx ends
	}()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	r.changed()
	r.api.slow = true
	return r
}

func (r *rig) apply(ops ...store.Op) {
	r.Helper()
	if _, err := r.store.Apply(ops...); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) changed() string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.seen)
	out := strings.Join(slices.Compact(r.seen), " ")
	r.seen = nil
	return out
}

func gateway(t *testing.T, name, listener, secret string) store.Op {
	t.Helper()
	var g gatewayv1.Gateway
	text := strings.NewReplacer("NAME", name, "LISTENER", listener, "SECRET", secret).Replace(`
metadata: {namespace: default, name: NAME}
spec:
  gatewayClassName: penstock
  listeners: [{name: LISTENER, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: SECRET}]}}]`)
	if err := yaml.UnmarshalStrict([]byte(text), &g); err != nil {
		t.Fatal(err)
	}
	return store.Gateways.Put(&g)
}

func TestSecret_OneThatIsNotReadYetDelaysItsGatewayAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, gateway(t, "slow", "a", "one"), gateway(t, "other", "a", "one"))
		r.apply(gateway(t, "slow", "b", "two"))
		if got := r.changed(); got != "" {
			t.Errorf("changed before the certificate was read: got %s, want nothing", got)
		}
		r.apply(gateway(t, "other", "b", "one"))
		if got := r.changed(); got != "default/other" {
			t.Errorf("while a certificate of another Gateway is read, changed: %q, want default/other", got)
		}
		r.apply(store.Secrets.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "two"}}))
		r.api.answer("default/two")
		if got := r.changed(); got != "default/slow" {
			t.Errorf("after the certificate was read, changed: %q, want default/slow", got)
		}
	})
}

func TestSecret_OneThatCannotBeReadIsWaitedForThreeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, gateway(t, "g", "a", "one"))
		r.apply(gateway(t, "g", "b", "two"))
		time.Sleep(3*time.Second - time.Millisecond)
		if got := r.changed(); got != "" {
			t.Errorf("changed before the time-out: got %s, want nothing", got)
		}
		time.Sleep(2 * time.Millisecond)
		if got := r.changed(); got != "default/g" {
			t.Errorf("after the time-out, changed: %q, want default/g", got)
		}
	})
}
