package attacks

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// workerHeaders are headers that name servers. A sidecar or frontend next to a model server calls
// these servers, or reads their caches.
var workerHeaders = []string{
	"x-prefiller-host-port", "x-encoder-hosts-ports", "x-data-parallel-host-port", "x-kv-cache-source-host-port",
	"x-data-parallel-rank",
	"x-worker-instance-id", "x-prefill-instance-id", "x-dp-rank", "x-prefill-dp-rank",
	"x-dynamo-worker-instance-id", "x-dynamo-prefill-instance-id", "x-dynamo-dp-rank", "x-dynamo-prefill-dp-rank",
	"x-dynamo-routing-mode",
}

// sendWorkers sends a request that names workers in its body and in headers. form maps a header's
// name to the names under which it is sent.
func (s *site) sendWorkers(ctx context.Context, form func(name string) []string) error {
	const members = `"backend_instance_id":666,"decode_worker_id":666,"prefill_worker_id":666,"dp_rank":666,"prefill_dp_rank":666,"token_data":[666]`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+local(s.gateway)+"/v1/chat/completions",
		strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hello"}],"nvext":{`+members+
			`},"nv\u0065xt":{`+members+`}}`))
	if err != nil {
		return err
	}
	for _, name := range workerHeaders {
		for _, n := range form(name) {
			req.Header[n] = append(req.Header[n], "169.254.169.254:80", "666")
		}
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %w, want 200", response.Status, err)
	}
	return nil
}

// A client names the cloud's metadata server, or another tenant's worker, in a header or in the
// body's field nvext. Its request reaches only the servers of its pick.
func TestWorkers_ThatAClientNamesAreRemoved(t *testing.T) {
	s := prepare(t, map[string]string{"workers.yaml": `apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: chat}
spec:
  targetRef: {name: chat}
  picker: {strategy: plugins, configRef: {kind: EndpointPickerConfig, name: workers}}
---
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
metadata: {name: workers}
plugins: [{type: active-request-scorer}, {type: dynamo-headers}]
`})
	var mu sync.Mutex
	var got http.Header
	var body string
	next := s.server.Config.Handler
	s.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		mu.Lock()
		got, body = r.Header.Clone(), string(text)
		mu.Unlock()
		r.Body = io.NopCloser(strings.NewReader(string(text)))
		next.ServeHTTP(w, r)
	})
	s.serve()
	s.attach()
	send := func(form func(name string) []string) error { return s.sendWorkers(t.Context(), form) }
	plain := func(name string) []string { return []string{name} }
	s.Eventually("the pool serves by its policy", func() error {
		if err := send(plain); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(body, "666") {
			return fmt.Errorf("the body is %s, want no 666", body)
		}
		return nil
	})
	for what, form := range map[string]func(string) []string{
		"as documented": plain,
		"in capitals":   func(name string) []string { return []string{strings.ToUpper(name)} },
		"many times": func(name string) []string {
			return []string{name, strings.ToUpper(name), http.CanonicalHeaderKey(name)}
		},
	} {
		if err := send(form); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		mu.Lock()
		for _, name := range workerHeaders {
			if values := got.Values(name); len(values) > 0 {
				t.Errorf("%s: the server got %s: %v, want none", what, name, values)
			}
		}
		if strings.Contains(body, "666") || strings.Contains(fmt.Sprint(got), "169.254.169.254") {
			t.Errorf("%s: the server got %v\n%s\nwant neither 666 nor 169.254.169.254", what, got, body)
		}
		mu.Unlock()
	}
}
