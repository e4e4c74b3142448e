package attacks

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func processorObjects(port int) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: processor}
spec: {ports: [{name: http, port: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: processor-1, labels: {kubernetes.io/service-name: processor}}
addressType: IPv4
ports: [{name: http, port: %d}]
endpoints: [{addresses: [127.0.0.1]}]
---
apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: chat}
spec:
  targetRef: {name: chat}
  picker: {processor: {service: processor, timeout: 200ms, route: true}}
`, port)
}

// The service that prepares requests (processor) answers incorrectly or never. Requests are still
// served, and soon as fast as without the service.
func TestProcessor_HostileOneLosesNoRequest(t *testing.T) {
	type answer func(http.ResponseWriter, *http.Request)
	var now atomic.Pointer[answer]
	var calls atomic.Int64
	set := func(f answer) { now.Store(&f) }
	set(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"token_key":"k"}`) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		(*now.Load())(w, r)
	}))
	t.Cleanup(server.Close)
	objects := processorObjects(server.Listener.Addr().(*net.TCPAddr).Port)
	s := start(t, map[string]string{"processor.yaml": objects})
	s.Eventually("the processor is asked", func() error {
		if err := s.ask(http.MethodPost, "/v1/chat/completions", "{}"); err != nil || calls.Load() == 0 {
			return fmt.Errorf("%d calls: %w, want at least 1", calls.Load(), err)
		}
		return nil
	})
	before, peak := s.rss(s.penstock), s.peak(s.penstock)
	text := func(begin, part string, size int, end string) answer {
		return func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, begin)
			block := strings.Repeat(part, 1<<20/len(part))
			for sent := 0; sent < size; sent += len(block) {
				if _, err := io.WriteString(w, block); err != nil {
					return
				}
			}
			_, _ = io.WriteString(w, end)
		}
	}
	for i, attack := range []struct {
		name   string
		answer answer
	}{
		{"hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{"status 500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }},
		{"a header of 1 MiB", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("a", strings.Repeat("a", 1<<20))
		}},
		{"token_value of 100 MB", text(`{"token_value":"[1`, ",1", 100<<20, `]"}`)},
		{"deep", text(`{"more":`, "[", 4<<20, "")},
		{"no JSON", text("", "x", 1<<10, "")},
		{"null", text("null", " ", 1, "")},
		{"another type", text(`{"token_value":[1]}`, " ", 1, "")},
		{"a member in token_value", text(`{"token_value":"[1],\"messages\":[2]"}`, " ", 1, "")},
		{"a header in token_key", text(`{"token_key":"a\r\nauthorization: x"}`, " ", 1, "")},
		{"a worker elsewhere", text(`{"worker_address":"169.254.169.254:80","more":{"a":[1]}}`, " ", 1, "")},
		{"redirects", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusTemporaryRedirect)
		}},
		{"closes", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		called := calls.Load()
		set(attack.answer)
		// Penstock calls a changed processor again
		s.Write("processor.yaml", strings.Replace(objects, "timeout: 200ms", fmt.Sprintf("timeout: %dms", 201+i), 1))
		s.Eventually(attack.name+": the processor is asked", func() error {
			if s.median(3); calls.Load() == called {
				return fmt.Errorf("%d calls, want more", calls.Load())
			}
			return nil
		})
		s.undelayed(attack.name, 100*time.Millisecond)
		t.Logf("%s: %d calls", attack.name, calls.Load()-called)
	}
	called := calls.Load()
	set(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{}`) })
	s.Eventually("the processor, which was left alone, is asked again", func() error {
		if s.median(3); calls.Load() == called {
			return fmt.Errorf("%d calls, want more", calls.Load())
		}
		return nil
	})
	if most := peak(); most > before+96 {
		t.Errorf("penstock had %.0f MiB before, and %.0f MiB at the peak, want at most %.0f", before, most, before+96)
	}
}
