package modelserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Config describes a simulated model server. Only Model is required.
type Config struct {
	Name  string // in answers and x-served-by; "" means "sim"
	Model string
	LoRAs []string
	// MaxLoRAs bounds the active adapters; 0 means 1, vLLM's default.
	MaxLoRAs int

	MaxNumSeqs    int // 0 means 256, vLLM's default on small GPUs
	MaxPrefills   int // vLLM's max_num_partial_prefills; 0 means no limit
	KVCacheTokens int // rounded down to blocks of 16 tokens; 0 means 65536

	// TokenizerRate is in tokens a second; 0 means no time. The server tokenizes one prompt at a
	// time, before it sends the headers of the answer.
	TokenizerRate    float64
	TimeToFirstToken time.Duration // from the end of the queue to the first token
	// PrefillRate is the speed of reading a prompt, in tokens a second; 0 means no time.
	PrefillRate       float64
	InterTokenLatency time.Duration

	// StepTime makes the server compute in steps, as vLLM does. TimeToFirstToken, InterTokenLatency
	// and MaxPrefills then have no effect. A step takes StepTime, or longer if PrefillRate requires
	// it, plus StepTimePerSequence for each running request. It computes up to MaxBatchedTokens
	// prompt tokens (0 means 2048), and one token of each answer.
	StepTime, StepTimePerSequence time.Duration
	MaxBatchedTokens              int

	// PrefixCaching keeps the blocks of prompts, so that a common prefix is read once.
	PrefixCaching bool
	// KVEvents is the host:port at which the server publishes KV events over ZeroMQ, and
	// KVEventsReplay the host:port at which it sends earlier events again. KVEventsConnect is the
	// host:port of a subscriber to which the server connects. "" means none.
	KVEvents, KVEventsReplay, KVEventsConnect string
	KVEventsTopic                             string // "" means kv@NAME@MODEL

	// Tokens is the token store for requests with TokensKeyHeader; may be nil.
	Tokens TokenStore

	FailRate float64 // share of requests that fail with Status, 0 to 1; evenly spread
	Status   int     // 0 means 503

	Listen []string      // host:port; port 0 means any free port
	Grace  time.Duration // for requests in flight after Run's context ends; 0 means 30 s

	Log *slog.Logger // nil means slog.Default()
}

// Server is a simulated model server. It is an http.Handler.
type Server struct {
	cfg       Config
	log       *slog.Logger
	engine    *engine
	cache     *cache
	events    *kvEvents
	mux       *http.ServeMux
	paths     []string
	listeners []net.Listener
	started   time.Time

	tokenizer        chan struct{}
	adapters         atomic.Pointer[[]string]
	draining         atomic.Bool
	requests         atomic.Uint64
	promptTokens     atomic.Uint64
	generationTokens atomic.Uint64
	prefillTokens    atomic.Uint64
	prefillTime      atomic.Int64 // in nanoseconds
	prefills         atomic.Uint64
	stopped, cut     atomic.Uint64 // by finish reason: "stop", "length"
	last             atomic.Pointer[received]
}

func (cfg *Config) check() error {
	if cfg.Model == "" {
		return errors.New("sim: Config needs Model")
	}
	for _, lora := range cfg.LoRAs {
		if lora == cfg.Model || lora == "" {
			return fmt.Errorf("sim: LoRA adapter %q: the name is empty or the base model's", lora)
		}
	}
	if cfg.MaxLoRAs < 0 || cfg.MaxNumSeqs < 0 || cfg.MaxPrefills < 0 || cfg.KVCacheTokens < 0 ||
		cfg.TimeToFirstToken < 0 || cfg.InterTokenLatency < 0 || cfg.PrefillRate < 0 || cfg.TokenizerRate < 0 ||
		cfg.StepTime < 0 || cfg.StepTimePerSequence < 0 || cfg.MaxBatchedTokens < 0 {
		return errors.New("sim: a count, a rate or a latency is negative")
	}
	if cfg.StepTime > 0 && (cfg.TimeToFirstToken > 0 || cfg.InterTokenLatency > 0 || cfg.MaxPrefills > 0) {
		return errors.New("sim: steps take the place of a time to the first token, " +
			"an inter-token latency and a limit of partial prefills: set a step time without these")
	}
	if cfg.StepTime == 0 && (cfg.StepTimePerSequence > 0 || cfg.MaxBatchedTokens > 0) {
		return errors.New("sim: a step time per sequence and a number of batched tokens need a step time")
	}
	if cfg.FailRate < 0 || cfg.FailRate > 1 {
		return fmt.Errorf("sim: fail rate %g is not between 0 and 1", cfg.FailRate)
	}
	if cfg.Status != 0 && (cfg.Status < 200 || cfg.Status > 599) {
		return fmt.Errorf("sim: status %d is not between 200 and 599", cfg.Status)
	}
	return nil
}

// New returns a Server, or an error if cfg is invalid. It opens no socket.
func New(cfg Config) (*Server, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	setDefault(&cfg.Name, "sim")
	setDefault(&cfg.MaxLoRAs, 1)
	setDefault(&cfg.MaxNumSeqs, 256)
	setDefault(&cfg.KVCacheTokens, 65536)
	setDefault(&cfg.Status, http.StatusServiceUnavailable)
	setDefault(&cfg.Grace, 30*time.Second)
	setDefault(&cfg.MaxBatchedTokens, 2048)
	setDefault(&cfg.Log, slog.Default())
	if cfg.KVCacheTokens < blockSize {
		return nil,
			fmt.Errorf("sim: a KV cache of %d tokens is less than one block of %d", cfg.KVCacheTokens, blockSize)
	}
	s := &Server{
		cfg: cfg, log: cfg.Log, started: time.Now(), mux: http.NewServeMux(),
		tokenizer: make(chan struct{}, 1),
		engine:    newEngine(cfg.MaxNumSeqs, cfg.KVCacheTokens/blockSize, cfg.MaxLoRAs, cfg.MaxPrefills),
	}
	if cfg.StepTime > 0 {
		s.engine.steps = &steps{least: cfg.StepTime, perSequence: cfg.StepTimePerSequence, rate: cfg.PrefillRate,
			chunk: cfg.MaxBatchedTokens}
	}
	s.adapters.Store(&cfg.LoRAs)
	publishes := cfg.KVEvents != "" || cfg.KVEventsConnect != ""
	if !cfg.PrefixCaching && (publishes || cfg.KVEventsReplay != "") || !publishes && cfg.KVEventsReplay != "" {
		return nil,
			errors.New("sim: KV events need prefix caching, and their replay an address at which they are published")
	}
	if publishes {
		setDefault(&cfg.KVEventsTopic, "kv@"+cfg.Name+"@"+cfg.Model)
		s.events = &kvEvents{topic: cfg.KVEventsTopic}
	}
	if cfg.PrefixCaching {
		s.cache = newCache(s.engine.blocks, s.events)
	}
	s.register()
	return s, nil
}

func (s *Server) register() {
	if s.cache != nil {
		s.handle("POST /reset_prefix_cache", func(http.ResponseWriter, *http.Request) { s.cache.clear() })
	}
	for path, a := range map[string]api{
		"/v1/chat/completions": chatAPI, "/v1/completions": completionsAPI, "/v1/responses": responsesAPI,
		"/v1/messages": messagesAPI,
	} {
		s.handle("POST "+path, s.generate(a))
	}
	s.handle("POST /v1/embeddings", s.embeddings)
	for _, path := range []string{"/rerank", "/v1/rerank", "/v2/rerank"} {
		s.handle("POST "+path, s.rerank)
	}
	s.handle("POST /v1/chat/completions/render", func(w http.ResponseWriter, r *http.Request) {
		s.render(w, r, chatAPI, func(prompt rendered) any { return prompt })
	})
	s.handle("POST /v1/completions/render", func(w http.ResponseWriter, r *http.Request) {
		s.render(w, r, completionsAPI, func(prompt rendered) any { return []rendered{prompt} })
	})
	s.handle("GET /v1/models", s.models)
	s.handle("POST /v1/load_lora_adapter", s.loadAdapter)
	s.handle("POST /v1/unload_lora_adapter", s.unloadAdapter)
	s.handle("GET /health", s.health)
	s.handle("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]string{"version": vllmVersion})
	})
	s.handle("GET /metrics", s.metrics)
	s.handle("GET /debug/last", s.debugLast)
}

func (s *Server) handle(pattern string, f http.HandlerFunc) {
	s.mux.HandleFunc(pattern, f)
	_, path, _ := strings.Cut(pattern, " ")
	s.paths = append(s.paths, path)
}

// Paths lists the server's paths, for the documentation.
func (s *Server) Paths() []string { return s.paths }

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// ServeHTTP adds the server's name and the address of the connection to every response.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("x-served-by", s.cfg.Name)
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		w.Header().Set("x-served-at", local.String())
	}
	s.mux.ServeHTTP(w, r)
}

// Listen opens the sockets of Config.Listen and returns their addresses. Run calls Listen if
// needed.
func (s *Server) Listen() ([]string, error) {
	var addresses []string
	for _, address := range s.cfg.Listen {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			for _, open := range s.listeners {
				open.Close()
			}
			s.listeners = nil
			return nil, fmt.Errorf("sim: %w", err)
		}
		s.listeners = append(s.listeners, listener)
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}

// Run serves HTTP/1.1 and cleartext HTTP/2 until ctx ends. Then /health fails, and Run returns
// after the requests in flight. After Config.Grace it returns an error.
func (s *Server) Run(ctx context.Context) error {
	if len(s.listeners) == 0 {
		if _, err := s.Listen(); err != nil {
			return err
		}
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: s, Protocols: &protocols, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn)}

	group, groupCtx := errgroup.WithContext(ctx)
	for _, listener := range s.listeners {
		group.Go(func() error {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("sim: %w", err)
			}
			return nil
		})
	}
	if err := s.runEvents(groupCtx, group); err != nil {
		return err
	}
	group.Go(func() error {
		<-groupCtx.Done()
		s.draining.Store(true)
		graceCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Grace)
		defer cancel()
		if err := server.Shutdown(graceCtx); err != nil {
			server.Close()
			return fmt.Errorf("sim: requests in flight after %s: %w", s.cfg.Grace, err)
		}
		return nil
	})
	return group.Wait()
}

func (s *Server) runEvents(ctx context.Context, group *errgroup.Group) error {
	listen := func(address string, each func(context.Context, net.Listener) error) error {
		if address == "" {
			return nil
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("sim: KV events: %w", err)
		}
		group.Go(func() error { return each(ctx, listener) })
		return nil
	}
	if s.cfg.KVEventsConnect != "" {
		group.Go(func() error { s.events.publisher.Dial(ctx, s.cfg.KVEventsConnect, time.Second); return nil })
	}
	return errors.Join(
		listen(s.cfg.KVEvents, func(ctx context.Context, l net.Listener) error {
			return s.events.publisher.Serve(ctx, l)
		}),
		listen(s.cfg.KVEventsReplay, func(ctx context.Context, l net.Listener) error {
			return acceptAll(ctx, l, s.events.replay)
		}))
}
