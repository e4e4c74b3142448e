package features

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// keeper is a model server that stores its responses, as vLLM does with
// VLLM_ENABLE_RESPONSES_API_STORE=1. It answers 404 to requests for responses of other servers.
type keeper struct {
	name string
	mu   sync.Mutex
	kept map[string]bool
	last int
}

func (s *site) keepers(names ...string) {
	for _, name := range names {
		k := &keeper{name: name, kept: map[string]bool{}}
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"data":[{"id":"llama"}]}`)
		})
		mux.HandleFunc("POST /v1/responses", k.create)
		mux.HandleFunc("/v1/responses/{id}", k.named)
		mux.HandleFunc("/v1/responses/{id}/{what}", k.named)
		s.backend(name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("x-served-by", k.name)
			w.Header().Set("content-type", "application/json")
			mux.ServeHTTP(w, r)
		}))
	}
}

func (k *keeper) named(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !k.has(id) {
		http.Error(w, `{"error":{"message":"no response `+id+`"}}`, http.StatusNotFound)
		return
	}
	fmt.Fprintf(w, `{"id":%q,"object":"response","status":"completed"}`, id)
}

func (k *keeper) has(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept[id]
}

func (k *keeper) create(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Stream   bool   `json:"stream"`
		Previous string `json:"previous_response_id"`
		ID       string `json:"request_id"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if asked.Previous != "" && !k.has(asked.Previous) {
		http.Error(w, `{"error":{"message":"no response `+asked.Previous+`"}}`, http.StatusNotFound)
		return
	}
	k.mu.Lock()
	k.last++
	id := asked.ID
	if id == "" {
		id = fmt.Sprintf("resp_%s_%d_%d", k.name, time.Now().UnixNano(), k.last)
	}
	k.kept[id] = true
	k.mu.Unlock()
	// The picker must read neither earlier members nor other objects' IDs as the response's ID.
	body := fmt.Sprintf(`{"created_at":1,"metadata":{"id":"resp_other"},"id":%q,"output":[{"id":"msg_1"}]}`, id)
	if !asked.Stream {
		fmt.Fprint(w, body)
		return
	}
	w.Header().Set("content-type", "text/event-stream; charset=utf-8")
	for _, kind := range []string{"response.created", "response.completed"} {
		fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,\"item\":{\"id\":\"no\"},\"response\":%s}\n\n", kind, kind, body)
		w.(http.Flusher).Flush()
	}
}

// respond sends a request of the Responses API that follows the response with ID previous; "":
// none. It returns the new response's ID.
func (s *site) respond(previous string, stream bool) (id, by string, err error) {
	return s.created(map[string]any{"model": "llama", "input": "hi", "stream": stream}, previous)
}

func (s *site) created(body map[string]any, previous string) (id, by string, err error) {
	if previous != "" {
		body["previous_response_id"] = previous
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return "", "", err
	}
	got, err := s.post(s.base()+"/v1/responses", string(raw))
	if err != nil {
		return "", "", err
	}
	if got.status != http.StatusOK {
		return "", got.by(), fmt.Errorf("%d %s, want 200", got.status, got.body)
	}
	at := strings.Index(got.body, `"id":"resp_`+got.by())
	if at < 0 {
		return "", "", fmt.Errorf("got %s, want an ID of the server %q", got.body, got.by())
	}
	id, _, _ = strings.Cut(got.body[at+len(`"id":"`):], `"`)
	return id, got.by(), nil
}

func (s *site) begins(t testing.TB) {
	t.Helper()
	s.Eventually("responses are created", func() error {
		_, _, err := s.respond("", false)
		return err
	})
}
