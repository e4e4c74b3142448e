package preprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/penstock-project/penstock/picker/external"
	"github.com/penstock-project/penstock/picker/external/tokenstore"
)

const (
	// maxBody bounds a request's body, and heldBodies all bodies in memory, in bytes. A gateway
	// accepts bodies of up to 32 MiB, which then get JSON around them.
	maxBody, heldBodies = 33 << 20, 2 * 33 << 20
	// maxText bounds the text of a prompt in bytes, and maxTokens its tokens.
	maxText, maxTokens = 4 << 20, 1 << 20
)

// Config configures a Processor. Tokenize is required.
type Config struct {
	Tokenize func(text string) ([]uint32, error)
	Router   string        // URL; "" for none
	Tokens   string        // the token store's URL; "" means that answers have the token IDs
	Timeout  time.Duration // default 300 ms
	Log      *slog.Logger  // default slog.Default()
}

// Processor answers POST /process. Its methods are safe for concurrent use.
type Processor struct {
	log      *slog.Logger
	encode   func(text string) ([]uint32, error)
	turns    *semaphore.Weighted
	router   *external.Peer
	tokens   *tokenstore.Client
	results  *prometheus.CounterVec
	duration prometheus.Histogram
	failures *prometheus.CounterVec

	mu      sync.Mutex
	failing map[string]bool // whether a program's last call failed, to log only changes
}

// New returns a Processor, and registers its metrics. An invalid URL is an error.
func New(cfg Config, metrics prometheus.Registerer) (*Processor, error) {
	p := &Processor{log: cfg.Log, encode: cfg.Tokenize,
		turns: semaphore.NewWeighted(int64(min(runtime.GOMAXPROCS(0), 4))), failing: map[string]bool{}}
	if p.log == nil {
		p.log = slog.Default()
	}
	var err error
	if cfg.Router != "" {
		if p.router, err = external.NewPeer(external.PeerConfig{
			Name: "router", URL: cfg.Router, Timeout: cfg.Timeout,
		}); err != nil {
			return nil, fmt.Errorf("processor: %w", err)
		}
	}
	if cfg.Tokens != "" {
		if p.tokens, err = tokenstore.NewClient(cfg.Tokens, cfg.Timeout); err != nil {
			return nil, fmt.Errorf("processor: %w", err)
		}
	}
	p.results = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "penstock_external_processed_total",
		Help: "Requests that the processor answered, by result: key: the token store has the token IDs; value: the " +
			"answer has them; invalid: 4xx; canceled: the endpoint picker left.",
	}, []string{"result"})
	p.duration = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "penstock_external_tokenize_seconds", Help: "How long the tokenization of a prompt took.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8),
	})
	p.failures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "penstock_external_peer_failures_total",
		Help: "Calls of the processor that failed or were omitted, by peer: router or tokens.",
	}, []string{"peer"})
	metrics.MustRegister(p.results, p.duration, p.failures)
	return p, nil
}

// Paths adds the path /process to a server.
func (p *Processor) Paths(server *external.Server) { server.Handle("POST /process", p.serve) }

// ServerConfig returns the limits of the Processor's server.
func ServerConfig() external.ServerConfig {
	return external.ServerConfig{Component: "processor", Body: maxBody, Bodies: heldBodies}
}

type answer struct {
	Worker string `json:"worker_address,omitempty"`
	Key    string `json:"token_key,omitempty"`
	Value  string `json:"token_value,omitempty"`
}

type invalid struct {
	status int
	error
}

func (p *Processor) serve(w http.ResponseWriter, r *http.Request, body []byte) {
	a, err := p.process(r.Context(), body, r.Header.Get("traceparent"))
	mistake := (*invalid)(nil)
	switch {
	case errors.As(err, &mistake):
		p.results.WithLabelValues("invalid").Inc()
		external.Fail(w, mistake.status, "%v", mistake.error)
		return
	case err != nil:
		p.results.WithLabelValues("canceled").Inc()
		return
	case a.Key != "":
		p.results.WithLabelValues("key").Inc()
	default:
		p.results.WithLabelValues("value").Inc()
	}
	external.WriteJSON(w, http.StatusOK, a)
}

var errNoRequest = errors.New("the body must be a JSON object with request_body, the client's request, and headers")

func unreadable(err error) error {
	wrong := (*json.UnmarshalTypeError)(nil)
	switch {
	case !errors.As(err, &wrong):
		return fmt.Errorf("the body is not JSON: %w", err)
	case wrong.Field == "":
		return errNoRequest
	}
	want := "an object"
	switch wrong.Type.Kind() {
	case reflect.Slice:
		want = "a list"
	case reflect.String:
		want = "a text"
	default:
	}
	return fmt.Errorf("%s must be %s, and a value in it is of type %s", wrong.Field, want, wrong.Value)
}

// process returns the answer to a request body, or *invalid for an invalid request. Any other error
// means that the client has disconnected.
func (p *Processor) process(ctx context.Context, body []byte, traceParent string) (*answer, error) {
	var q struct {
		Body *fields `json:"request_body"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, &invalid{http.StatusBadRequest, unreadable(err)}
	}
	if q.Body == nil {
		return nil, &invalid{http.StatusBadRequest, errNoRequest}
	}
	text, tokens, err := q.Body.text()
	if err != nil {
		return nil, &invalid{http.StatusUnprocessableEntity, err}
	}
	if tokens == nil {
		if tokens, err = p.tokenize(ctx, text); err != nil {
			return nil, err
		}
	}
	if len(tokens) > maxTokens {
		return nil,
			&invalid{http.StatusRequestEntityTooLarge,
				fmt.Errorf("the prompt has %d tokens; the limit is %d", len(tokens), maxTokens)}
	}
	ids := list(tokens)
	var a answer
	var calls sync.WaitGroup
	if p.router != nil && string(q.Body.Route) == "true" {
		calls.Go(func() {
			worker, err := p.route(ctx, ids, traceParent)
			p.observe(ctx, "router", err)
			a.Worker = worker
		})
	}
	if p.tokens != nil {
		calls.Go(func() {
			key, err := p.tokens.Put(ctx, ids, traceParent)
			p.observe(ctx, "tokens", err)
			a.Key = key
		})
	}
	calls.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if a.Key == "" {
		a.Value = string(ids)
	}
	return &a, nil
}

// tokenize limits concurrency: a long text takes some 100 ms of CPU time.
func (p *Processor) tokenize(ctx context.Context, text string) ([]uint32, error) {
	if len(text) > maxText {
		return nil,
			&invalid{http.StatusRequestEntityTooLarge,
				fmt.Errorf("the prompt has %d bytes of text; the limit is %d", len(text), maxText)}
	}
	if err := p.turns.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer p.turns.Release(1)
	began := time.Now()
	tokens, err := p.encode(text)
	if err != nil {
		return nil, &invalid{http.StatusUnprocessableEntity, errors.New("the prompt cannot be tokenized")}
	}
	p.duration.Observe(time.Since(began).Seconds())
	return tokens, nil
}

func (p *Processor) route(ctx context.Context, ids []byte, traceParent string) (string, error) {
	body := append(append([]byte(`{"token_ids":`), ids...), '}')
	r, err := p.router.Do(ctx,
		external.Call{Method: http.MethodPost, Path: "/route", Body: body, TraceParent: traceParent, Limit: 4 << 10})
	if err != nil {
		return "", err
	}
	var found struct {
		Worker string `json:"worker_address"`
	}
	if r.Status != http.StatusOK || json.Unmarshal(r.Body, &found) != nil || found.Worker == "" {
		return "", fmt.Errorf("router: status %d without a worker_address: %.200q", r.Status, r.Body)
	}
	return found.Worker, nil
}

func (p *Processor) observe(ctx context.Context, peer string, err error) {
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		p.failures.WithLabelValues(peer).Inc()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch failing := p.failing[peer]; {
	case err != nil && !failing && peer == "router":
		p.log.Warn("the router did not choose a worker; the endpoint picker schedules", "error", err)
	case err != nil && !failing:
		p.log.Warn("the token store did not take token IDs; they travel in the body", "error", err)
	case err == nil && failing:
		p.log.Info("the peer answers again", "peer", peer)
	}
	p.failing[peer] = err != nil
}

func list(tokens []uint32) []byte {
	out := make([]byte, 0, 2+6*len(tokens))
	out = append(out, '[')
	for i, id := range tokens {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendUint(out, uint64(id), 10)
	}
	return append(out, ']')
}
