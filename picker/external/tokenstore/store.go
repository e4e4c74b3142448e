package tokenstore

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/external"
)

const (
	// MaxList bounds a list, in bytes of JSON: enough for a million token IDs.
	MaxList    = 8 << 20
	heldBodies = 32 << 20 // in bytes, for all request bodies
	entryBytes = 256
)

// Config configures a Store. Zero values select the defaults.
type Config struct {
	Bytes int64         // of all lists together; default 256 MiB
	TTL   time.Duration // default 10 minutes
}

// Store keeps lists of token IDs by key. Its methods are safe for concurrent use.
type Store struct {
	cfg    Config
	stored *prometheus.CounterVec
	read   *prometheus.CounterVec

	mu     sync.Mutex
	byKey  map[string]*list.Element
	used   *list.List // elements are *entry, most recently used first
	stores *list.List // elements are *entry, most recently stored first
	bytes  int64
}

type entry struct {
	key     string
	list    []byte
	expires time.Time
	use     *list.Element
}

// New returns an empty Store, and registers its metrics.
func New(cfg Config, metrics prometheus.Registerer) *Store {
	cfg.Bytes, cfg.TTL = cmp.Or(cfg.Bytes, 256<<20), cmp.Or(cfg.TTL, 10*time.Minute)
	s := &Store{
		cfg: cfg, byKey: map[string]*list.Element{}, used: list.New(), stores: list.New(),
		stored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_external_tokens_stored_total",
			Help: "Lists of token IDs, by result: stored; exists: the key was taken; invalid; evicted: the store was " +
				"full; expired.",
		}, []string{"result"}),
		read: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_external_tokens_read_total", Help: "Reads of the token store, by result: found or missing.",
		}, []string{"result"}),
	}
	metrics.MustRegister(s.stored, s.read, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "penstock_external_tokens_bytes", Help: "Bytes of the lists that the token store has.",
	}, func() float64 { return float64(s.size()) }))
	return s
}

// Paths adds the Store's paths to a server.
func (s *Store) Paths(server *external.Server) {
	server.Handle("PUT /tokens/{key}", s.put)
	server.Handle("GET /tokens/{key}", s.get)
}

// ServerConfig returns the limits of the Store's server.
func ServerConfig() external.ServerConfig {
	return external.ServerConfig{Component: "tokens", Body: MaxList, Bodies: heldBodies}
}

func (s *Store) put(w http.ResponseWriter, r *http.Request, body []byte) {
	key := r.PathValue("key")
	switch {
	case !ValidKey(key):
		s.stored.WithLabelValues("invalid").Inc()
		external.Fail(w, http.StatusBadRequest, "the key must be 32 hexadecimal digits in lower case")
	case !validList(body):
		s.stored.WithLabelValues("invalid").Inc()
		external.Fail(w, http.StatusBadRequest, "the body must be a JSON list of token IDs, such as [1,15043]")
	case !s.Put(key, body):
		external.Fail(w, http.StatusConflict, "the key exists: keys are used once")
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *Store) get(w http.ResponseWriter, r *http.Request, _ []byte) {
	tokens := s.Get(r.PathValue("key"))
	if tokens == nil {
		external.Fail(w, http.StatusNotFound,
			"no token IDs have this key: they expire %v after they are stored, and the least recently used are "+
				"evicted beyond %d bytes", s.cfg.TTL, s.cfg.Bytes)
		return
	}
	w.Header().Set("content-type", "application/json")
	_, _ = w.Write(tokens) // fails only if the client has disconnected
}

// validList reports whether text is a JSON list of integers below 2^32. Decoding the list would
// take more memory.
func validList(text []byte) bool {
	if len(text) == 0 || text[0] != '[' || bytes.IndexByte(text[1:], '[') >= 0 || !json.Valid(text) {
		return false
	}
	value := uint64(0)
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9':
			if value = 10*value + uint64(c-'0'); value > math.MaxUint32 {
				return false
			}
		case strings.IndexByte("[], \t\r\n", c) >= 0:
			value = 0
		default:
			return false
		}
	}
	return true
}

// Put stores a list, which the caller must not change. It returns false if the key exists.
func (s *Store) Put(key string, tokens []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.expire(now)
	if s.byKey[key] != nil {
		s.stored.WithLabelValues("exists").Inc()
		return false
	}
	e := &entry{key: key, list: tokens, expires: now.Add(s.cfg.TTL)}
	e.use = s.used.PushFront(e)
	s.byKey[key] = s.stores.PushFront(e)
	s.bytes += e.size()
	s.stored.WithLabelValues("stored").Inc()
	for s.bytes > s.cfg.Bytes {
		s.remove(s.used.Back().Value.(*entry), "evicted")
	}
	return true
}

// Get returns a list, or nil. The caller must not change the list.
func (s *Store) Get(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(time.Now())
	at := s.byKey[key]
	if at == nil {
		s.read.WithLabelValues("missing").Inc()
		return nil
	}
	e := at.Value.(*entry)
	s.used.MoveToFront(e.use)
	s.read.WithLabelValues("found").Inc()
	return e.list
}

// Run drops expired lists until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(max(s.cfg.TTL/10, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.mu.Lock()
			s.expire(time.Now())
			s.mu.Unlock()
		}
	}
}

func (s *Store) size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

func (e *entry) size() int64 { return int64(cap(e.list)) + entryBytes }

func (s *Store) expire(now time.Time) {
	for last := s.stores.Back(); last != nil; last = s.stores.Back() {
		e := last.Value.(*entry)
		if now.Before(e.expires) {
			return
		}
		s.remove(e, "expired")
	}
}

func (s *Store) remove(e *entry, result string) {
	s.stores.Remove(s.byKey[e.key])
	s.used.Remove(e.use)
	delete(s.byKey, e.key)
	s.bytes -= e.size()
	s.stored.WithLabelValues(result).Inc()
}
