package processor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sony/gobreaker/v2"
	"google.golang.org/grpc/mem"

	"github.com/penstock-project/penstock/picker/dial"
)

// Path is the default of Config.Path.
const Path = "/process"

// DefaultTimeout is how long a pick waits for an answer.
const DefaultTimeout = time.Second

const (
	// Above maxCalls calls in flight, requests continue without a call.
	maxCalls  = 256
	maxAnswer = 8 << 20 // in bytes, for a million token IDs
	// The circuit breaker ignores failures of calls with a body of more than largeBody bytes:
	// otherwise one client's large bodies could open the breaker for all clients.
	largeBody = 1 << 20
	// maxHeader bounds an answer's headers, maxKey a token key, and maxAddress a worker's address,
	// in bytes.
	maxHeader, maxKey, maxAddress = 16 << 10, 1 << 10, 256
	// The circuit breaker opens after this number of failures in a row. No call is made for
	// leftOut; then one request tries the service again.
	failures = 5
	// A Client uses at most maxAddresses addresses of a service, and tries at most maxAttempts of
	// them for one request.
	maxAddresses, maxAttempts = 16, 3
	leftOut                   = 10 * time.Second
)

// Config configures a Client.
type Config struct {
	Host string
	Path string // default: Path
	// Addresses are the service's addresses, which calls use in turn.
	Addresses []dial.Address
	TLS       dial.TLS
	Timeout   time.Duration // default DefaultTimeout
	// OnOpen is called when the circuit breaker opens, with the last call's error, and OnClose when
	// it closes. Both may be nil.
	OnOpen  func(reason string)
	OnClose func()
}

// Client calls one service. Its methods are safe for concurrent use.
type Client struct {
	host      string
	urls      []string
	next      atomic.Uint64
	timeout   time.Duration
	transport *http.Transport
	calls     chan struct{}
	breaker   *gobreaker.CircuitBreaker[*Answer]
	reason    atomic.Pointer[string]
}

// New returns a Client. The caller closes it.
func New(c Config) (*Client, error) {
	config, err := c.TLS.Config()
	if err != nil {
		return nil, err
	}
	client := &Client{
		host: c.Host, timeout: cmp.Or(c.Timeout, DefaultTimeout), calls: make(chan struct{}, maxCalls),
		transport: &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: 64, MaxConnsPerHost: maxCalls,
			IdleConnTimeout:    time.Minute,
			DisableCompression: true, MaxResponseHeaderBytes: maxHeader},
	}
	for _, a := range c.Addresses[:min(len(c.Addresses), maxAddresses)] {
		scheme := "https://"
		if a.Cleartext {
			scheme = "http://"
		}
		client.urls = append(client.urls, scheme+a.String()+cmp.Or(strings.TrimSuffix(c.Path, "/"), Path))
	}
	changed := func(_ string, from, to gobreaker.State) {
		switch {
		case to == gobreaker.StateOpen && from == gobreaker.StateClosed && c.OnOpen != nil:
			c.OnOpen(*client.reason.Load())
		case to == gobreaker.StateClosed && c.OnClose != nil:
			c.OnClose()
		}
	}
	client.breaker = gobreaker.NewCircuitBreaker[*Answer](gobreaker.Settings{
		MaxRequests: 1, Timeout: leftOut,
		ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failures },
		OnStateChange: changed,
		IsSuccessful:  func(err error) bool { return err == nil || errors.As(err, new(rejection)) },
		IsExcluded:    func(err error) bool { return errors.Is(err, errLeft) || errors.As(err, new(large)) },
	})
	return client, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Timeout returns the maximum duration of Process.
func (c *Client) Timeout() time.Duration { return c.timeout }

// Open reports whether the circuit breaker is open.
func (c *Client) Open() bool { return c.breaker.State() == gobreaker.StateOpen }

// Outcome is how a call ended.
type Outcome string

const (
	Processed Outcome = "processed"
	Rejected  Outcome = "rejected" // status 400, 413, 415 or 422: the service cannot process this request
	Failed    Outcome = "failed"   // an error, no answer in time, or an invalid answer
	// Skipped means that no call was made: the circuit breaker is open, too many calls are in
	// flight, or the body is not a JSON object.
	Skipped  Outcome = "skipped"
	Canceled Outcome = "canceled"
)

// Request is the input of Process.
type Request struct {
	// Body is the JSON object that the client sent.
	Body mem.BufferSlice
	// Route requests a worker: it adds "route": true to a body without a boolean member "route".
	Route   bool
	Headers map[string]string
	// TraceParent is the W3C trace context of the call; "" for none.
	TraceParent string
}

var (
	errLeft   = errors.New("the client has left")
	errBusy   = errors.New("too many calls are in flight")
	errAbsent = errors.New("the service has no address")
)

type large struct{ error }

func (l large) Unwrap() error { return l.error }

type rejection int

func (r rejection) Error() string { return fmt.Sprintf("status %d", int(r)) }

// Process calls the service. The Answer is nil for any Outcome but Processed; the error is then the
// reason, for display.
func (c *Client) Process(ctx context.Context, q *Request) (*Answer, Outcome, error) {
	if !object(q.Body) {
		return nil, Skipped, errNoObject
	}
	select {
	case c.calls <- struct{}{}:
		defer func() { <-c.calls }()
	default:
		return nil, Skipped, errBusy
	}
	a, err := c.breaker.Execute(func() (*Answer, error) {
		limited, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		a, err := c.ask(limited, q)
		if err != nil && ctx.Err() != nil {
			return nil, errLeft
		}
		if err != nil && limited.Err() != nil {
			err = fmt.Errorf("no answer in %v", c.timeout)
		}
		if err != nil && q.Body.Len() > largeBody {
			err = large{err}
		}
		if err != nil {
			text := Reason(err)
			c.reason.Store(&text)
		}
		return a, err
	})
	switch {
	case err == nil:
		return a, Processed, nil
	case errors.Is(err, errLeft):
		return nil, Canceled, err
	case errors.As(err, new(rejection)):
		return nil, Rejected, err
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return nil, Skipped,
			fmt.Errorf("it has failed %d times in a row, and is asked again within %v", failures, leftOut)
	}
	return nil, Failed, err
}

const maxReason = 200

// Reason returns an error's text, cut to 200 bytes of printable characters: the service chooses a
// part of the text.
func Reason(err error) string {
	text := strings.Map(func(c rune) rune {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, strings.ToValidUTF8(err.Error(), "?"))
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason-3], "") + "..."
	}
	return text
}

func (c *Client) ask(ctx context.Context, q *Request) (*Answer, error) {
	err := errAbsent
	for first, n := c.next.Add(1), 0; n < min(len(c.urls), maxAttempts); n++ {
		var a *Answer
		if a, err = c.askAt(ctx, c.urls[(first+uint64(n))%uint64(len(c.urls))], q); err == nil {
			return a, nil
		}
		var network *net.OpError
		if !errors.As(err, &network) || network.Op != "dial" {
			break
		}
	}
	return nil, err
}

func (c *Client) askAt(ctx context.Context, url string, q *Request) (*Answer, error) {
	body, size, err := q.encode()
	if err != nil {
		return nil, err
	}
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return nil, err
	}
	call.ContentLength, call.Host = size, c.host
	call.Header.Set("content-type", "application/json")
	if q.TraceParent != "" {
		call.Header.Set("traceparent", q.TraceParent)
	}
	response, err := c.transport.RoundTrip(call)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity:
		return nil, rejection(response.StatusCode)
	default:
		return nil, fmt.Errorf("status %d", response.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return read(text)
}

// sent is the body of a call. The transport may read it after the end of the call, and then closes
// it.
type sent struct {
	mu    sync.Mutex
	parts io.Reader
	body  *mem.Reader
}

func (s *sent) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts.Read(p)
}

// Close implements io.Closer. It releases the request's body.
func (s *sent) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = strings.NewReader("")
	return s.body.Close()
}

func (q *Request) encode() (*sent, int64, error) {
	headers, err := json.Marshal(q.Headers)
	if err != nil {
		return nil, 0, err
	}
	if q.Headers == nil {
		headers = []byte("{}")
	}
	before, after := `{"request_body":`, `,"headers":`+string(headers)+"}"
	size := int64(q.Body.Len())
	if q.Route {
		// The new member is last, because decoders use the last of several members with one name.
		trailing, empty := closing(q.Body)
		if after, size = `"route":true}`+after, size-int64(trailing); !empty {
			after = "," + after
		}
	}
	body := mem.BufferSlice(slices.Clone(q.Body)).Reader()
	return &sent{parts: io.MultiReader(strings.NewReader(before), io.LimitReader(body, size), strings.NewReader(after)),
		body: body}, int64(len(before)) + size + int64(len(after)), nil
}

var errNoObject = errors.New("the request's body is no JSON object")

func object(body mem.BufferSlice) bool {
	for _, buf := range body {
		if text := bytes.TrimLeft(buf.ReadOnlyData(), whitespace); len(text) > 0 {
			return text[0] == '{'
		}
	}
	return false
}

const whitespace = " \t\r\n"

func closing(body mem.BufferSlice) (n int, empty bool) {
	closed := false
	for _, buf := range slices.Backward(body) {
		for _, c := range slices.Backward(buf.ReadOnlyData()) {
			switch {
			case closed && !strings.ContainsRune(whitespace, rune(c)):
				return n, c == '{'
			case closed:
			default:
				n++
				closed = c == '}'
			}
		}
	}
	return n, false
}

// Answer is the service's result. Absent fields are zero.
type Answer struct {
	// Worker is "IP:PORT", or "NAME:PORT" of a pod or of a ModelServers host.
	Worker string
	// TokenKey is the value of the header x-req-tokens-key, for the model server.
	TokenKey string
	// Tokens are the token IDs as a JSON list.
	Tokens []byte
	Count  int
}

func read(text []byte) (*Answer, error) {
	var raw struct {
		Worker string  `json:"worker_address"`
		Key    string  `json:"token_key"`
		Value  *string `json:"token_value"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil,
			fmt.Errorf("the answer is no JSON object with texts worker_address, token_key and token_value: %w", err)
	}
	// Decoding null returns no error.
	if !bytes.HasPrefix(bytes.TrimLeft(text, whitespace), []byte("{")) {
		return nil, errors.New("the answer is null, and no JSON object")
	}
	a := &Answer{Worker: raw.Worker, TokenKey: raw.Key}
	switch {
	case len(a.Worker) > maxAddress:
		return nil, fmt.Errorf("worker_address has %d bytes; the limit is %d", len(a.Worker), maxAddress)
	case len(a.TokenKey) > maxKey:
		return nil, fmt.Errorf("token_key has %d bytes; the limit is %d", len(a.TokenKey), maxKey)
	case strings.ContainsFunc(a.TokenKey, func(c rune) bool { return c <= ' ' || c > '~' }):
		return nil, errors.New("token_key has characters that a header cannot have")
	}
	if raw.Value == nil || *raw.Value == "" {
		return a, nil
	}
	a.Tokens = bytes.TrimSpace([]byte(*raw.Value))
	var err error
	a.Count, err = countTokens(a.Tokens)
	return a, err
}

// IDs returns the token IDs, in order.
func (a *Answer) IDs() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		id, digits := uint32(0), false
		for _, c := range a.Tokens {
			switch {
			case c >= '0' && c <= '9':
				id, digits = 10*id+uint32(c-'0'), true
			case digits:
				if !yield(id) {
					return
				}
				id, digits = 0, false
			}
		}
	}
}

func countTokens(list []byte) (n int, err error) {
	wrong := func(at int) (int, error) {
		return 0, fmt.Errorf("token_value is no list of token IDs, such as [1,15043]: byte %d", at)
	}
	if len(list) < 2 || list[0] != '[' || list[len(list)-1] != ']' {
		return wrong(0)
	}
	digits, value, ended, comma := 0, uint64(0), false, false
	for i, c := range list[1 : len(list)-1] {
		switch {
		case c >= '0' && c <= '9':
			if ended || digits > 0 && value == 0 { // two integers without a comma, or a leading zero
				return wrong(i + 1)
			}
			if value = 10*value + uint64(c-'0'); value > 1<<32-1 {
				return wrong(i + 1)
			}
			digits++
		case c == ',':
			if digits == 0 {
				return wrong(i + 1)
			}
			n++
			digits, value, ended, comma = 0, 0, false, true
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			ended = digits > 0
		default:
			return wrong(i + 1)
		}
	}
	switch {
	case digits > 0:
		return n + 1, nil
	case comma:
		return wrong(len(list) - 1)
	}
	return 0, nil
}
