package features

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// loaded is a model server with a metrics page whose queue and KV cache usage a test sets.
type loaded struct{ page atomic.Pointer[string] }

func (l *loaded) has(queue int, kv float64) {
	text := fmt.Sprintf("vllm:num_requests_waiting %d\nvllm:num_requests_running 1\nvllm:kv_cache_usage_perc %g\n",
		queue, kv)
	l.page.Store(&text)
}

func (l *loaded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	switch {
	case r.URL.Path == "/metrics":
		_, _ = io.WriteString(w, *l.page.Load())
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		_, _ = io.WriteString(w, `{"choices": []}`)
	default:
		http.NotFound(w, r)
	}
}

// Without a PoolPolicy, requests for a Sheddable model are rejected if no server has capacity, as
// in the inference extension.
func TestCriticality_SheddableModelIsShedWhereNoServerHasCapacity(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b := new(loaded), new(loaded)
	a.has(0, 0)
	b.has(0, 0)
	s.backend("a", a)
	s.backend("b", b)
	s.up("criticality.yaml")
	ask := func(model string) string {
		got, err := s.ask("/", strings.Replace(question, "llama", model, 1))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(got.status, " ", got.header.Get("x-penstock-reason"))
	}
	for _, tt := range []struct {
		queueA, queueB int
		kvA, kvB       float64
		want           string
	}{
		{0, 0, 0, 0, "200 "},
		{6, 6, 0, 0, "429 shed"},
		{5, 6, 0.8, 0, "200 "},
		{0, 0, 0.81, 0.9, "429 shed"},
		{6, 0, 0, 0.9, "429 shed"},
		{6, 0, 0.9, 0, "200 "},
	} {
		a.has(tt.queueA, tt.kvA)
		b.has(tt.queueB, tt.kvB)
		s.Eventually(fmt.Sprintf("with %+v", tt), func() error {
			got := ask("batch")
			return because(got == tt.want, got)
		})
		for _, model := range []string{"chat", "llama"} {
			if got := ask(model); got != "200 " {
				t.Errorf(`%s with %+v: %s, want "200 "`, model, tt, got)
			}
		}
	}
	s.write("criticality.yaml", with("random"))
	s.reports("InferenceModel default/batch spec.criticality: it has no effect: strategy random")
}
