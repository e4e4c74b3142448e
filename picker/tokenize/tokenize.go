package tokenize

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"
	"k8s.io/utils/lru"

	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/picker/upstream"
)

const (
	// MaxBody bounds the body of a call, in bytes. Tokens skips longer requests.
	MaxBody = prefix.MaxTokens * prefix.BytesPerToken
	// maxResponse bounds a response, in bytes: enough for 131,072 tokens of 11 bytes.
	maxResponse = 2 << 20
	// maxIDs bounds the cached token IDs of all prompts together, in bytes of JSON.
	maxIDs = 32 << 20

	// After this number of failures in a row, a pool's servers are not called for firstPause. Each
	// further failure doubles the pause, up to lastPause.
	failures   = 5
	firstPause = time.Second
	lastPause  = time.Minute
)

// Config configures a Renderer.
type Config struct {
	// Transport is for calls over HTTP/1.1 in cleartext. The default keeps 16 connections to each
	// server.
	Transport  http.RoundTripper
	Prompts    int // cached prompts, each of up to 4 KiB; default 4,096
	Concurrent int // maximum of concurrent calls; default 64
}

// Renderer finds the token IDs of prompts for all pools. Its methods are safe for concurrent use.
type Renderer struct {
	transport http.RoundTripper
	calls     chan struct{}

	mu      sync.Mutex
	prompts *lru.Cache
	held    int // in bytes

	Cached, Rendered, Failed, Skipped atomic.Uint64 // requests by result
}

type prompt struct {
	key    uint64
	exact  prefix.Exact
	tokens int
	ids    []byte
}

// Tokens are a prompt's token IDs.
type Tokens struct {
	Exact prefix.Exact
	Count int
	IDs   []byte // JSON array, if Prompt.IDs was set; immutable
}

// New returns a Renderer.
func New(c Config) *Renderer {
	if c.Transport == nil {
		c.Transport = newTransport(upstream.Protocol{})
	}
	r := &Renderer{transport: c.Transport, calls: make(chan struct{}, cmp.Or(c.Concurrent, 64))}
	r.prompts = lru.NewWithEvictionFunc(cmp.Or(c.Prompts, 4096),
		func(_ lru.Key, old any) { r.held -= len(old.(*prompt).ids) })
	return r
}

func newTransport(by upstream.Protocol) *http.Transport { return by.Transport(16) }

// Pool counts the failures of calls to one pool's servers. The zero value is ready to use.
type Pool struct {
	Protocol upstream.Protocol

	secure sync.Once
	client http.RoundTripper

	mu     sync.Mutex
	failed int
	until  time.Time
}

func (p *Pool) ready(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.After(p.until)
}

func (p *Pool) result(ok bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ok {
		p.failed = 0
		return
	}
	if p.failed++; p.failed >= failures {
		p.until = now.Add(min(firstPause<<min(p.failed-failures, 10), lastPause))
	}
}

func (p *Pool) transport(clear http.RoundTripper) http.RoundTripper {
	if p.Protocol.TLS == nil && !p.Protocol.HTTP2 {
		return clear
	}
	p.secure.Do(func() { p.client = newTransport(p.Protocol) })
	return p.client
}

// URL returns the base of a server's URLs.
func (p *Pool) URL(server netip.AddrPort) string { return p.Protocol.URL(server) }

// Prompt is a prompt whose token IDs are needed.
type Prompt struct {
	Key  uint64
	Kind request.Kind
	Body mem.BufferSlice
	Salt uint64
	IDs  bool // requests Tokens.IDs
}

func path(k request.Kind) string {
	switch k {
	case request.ChatCompletions:
		return "/v1/chat/completions/render"
	case request.Completions:
		return "/v1/completions/render"
	}
	return ""
}

// Known reports whether servers can tokenize prompts of a kind.
func Known(k request.Kind) bool { return path(k) != "" }

// Tokens returns a prompt as token IDs, from the cache or from a server. base returns the server's
// URL without a path. Tokens returns false if it skips the call, or gets no valid answer within
// wait.
func (r *Renderer) Tokens(ctx context.Context, base func() string, p *Prompt, pool *Pool, wait time.Duration) (Tokens,
	bool) {
	if known := r.find(p.Key); known != nil && (!p.IDs || known.ids != nil) {
		r.Cached.Add(1)
		return salted(known, p.Salt), true
	}
	if path(p.Kind) == "" || p.Body.Len() == 0 || p.Body.Len() > MaxBody || !pool.ready(time.Now()) {
		r.Skipped.Add(1)
		return Tokens{}, false
	}
	select {
	case r.calls <- struct{}{}:
		defer func() { <-r.calls }()
	default:
		r.Skipped.Add(1)
		return Tokens{}, false
	}
	at := base()
	if at == "" {
		r.Skipped.Add(1)
		return Tokens{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	found, err := r.ask(ctx, pool.transport(r.transport), at+path(p.Kind), p)
	pool.result(err == nil, time.Now())
	if err != nil {
		r.Failed.Add(1)
		return Tokens{}, false
	}
	r.Rendered.Add(1)
	r.keep(found)
	return salted(found, p.Salt), true
}

func salted(p *prompt, salt uint64) Tokens {
	t := Tokens{p.exact, p.tokens, p.ids}
	t.Exact.Salt = salt
	return t
}

// ask sends a prompt to url, and reads its token IDs. The body's reader is not shared, because the
// transport may close it after ask has returned.
func (r *Renderer) ask(ctx context.Context, transport http.RoundTripper, url string, p *Prompt) (*prompt, error) {
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, url, mem.BufferSlice(slices.Clone(p.Body)).Reader())
	if err != nil {
		return nil, err
	}
	call.ContentLength = int64(p.Body.Len())
	call.Header.Set("content-type", "application/json")
	response, err := transport.RoundTrip(call)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", response.StatusCode)
	}
	if !p.IDs {
		return read(response.Body, p.Key)
	}
	var copied bytes.Buffer
	found, err := read(io.TeeReader(response.Body, &copied), p.Key)
	if err != nil {
		return nil, err
	}
	var ids struct {
		IDs []uint32 `json:"token_ids"`
	}
	if err := json.NewDecoder(bytes.NewReader(bytes.TrimLeft(copied.Bytes(), " \t\r\n["))).Decode(&ids); err != nil {
		return nil, err
	}
	found.ids, err = json.Marshal(ids.IDs)
	return found, err
}

var errNoTokens = errors.New("the response has no token_ids")

// read reads a response of a render endpoint. It ignores the tokens of a prompt with images,
// because KV events have other tokens for images.
func read(body io.Reader, key uint64) (*prompt, error) {
	s := request.New(request.Rendered)
	defer s.Release()
	chunk := make([]byte, 8<<10)
	began, total := false, 0
	for {
		n, err := body.Read(chunk)
		part := chunk[:n]
		if total += n; total > maxResponse {
			return nil, fmt.Errorf("the response has more than %d bytes", maxResponse)
		}
		if !began {
			if part = bytes.TrimLeft(part, " \t\r\n["); len(part) > 0 {
				began = true
			}
		}
		s.Write(part)
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
	}
	facts := s.Facts()
	if facts.Exact.Tokens == 0 {
		return nil, errNoTokens
	}
	return &prompt{key: key, exact: facts.Exact.Clone(), tokens: facts.Exact.Tokens}, nil
}

func (r *Renderer) find(key uint64) *prompt {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, _ := r.prompts.Get(key)
	known, _ := found.(*prompt)
	return known
}

func (r *Renderer) keep(p *prompt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prompts.Remove(p.key)
	for r.prompts.Len() > 0 && r.held+len(p.ids) > maxIDs {
		r.prompts.RemoveOldest()
	}
	r.prompts.Add(p.key, p)
	r.held += len(p.ids)
}
