package modelserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"
)

type api struct {
	prefix string
	prompt func(*fields) (last string, words []string, err error)
	// limit returns the answer's maximum number of tokens; nil means no limit.
	limit  func(*fields) (*int, error)
	whole  func(*reply) any
	events func(*reply) stream
	fail   func(http.ResponseWriter, *apiError)
}

type object = map[string]any

type reply struct {
	job
	id      string
	created int64 // Unix seconds
	tokens  usage
}

type stream struct {
	queued func() []event // called before the queue; may be nil
	first  func() []event // called before the first piece; may be nil
	piece  func(i int, text string) event
	last   func() []event
}

type event struct {
	name string
	data any
}

var done = event{data: json.RawMessage("[DONE]")}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`

	Details *promptDetails `json:"prompt_tokens_details,omitempty"`
}

type promptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

func (u *usage) cached() int {
	if u.Details == nil {
		return 0
	}
	return u.Details.CachedTokens
}

func (s *Server) generate(a api) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		job, err := s.read(w, r, a)
		number, err := s.count(err)
		if err != nil {
			failWith(w, err, a.fail)
			return
		}
		if s.tokenize(r.Context(), len(job.tokens)) != nil {
			return
		}
		answer := &reply{job: job, id: fmt.Sprintf("%s-%s-%d", a.prefix, s.cfg.Name, number),
			created: time.Now().Unix()}
		send := sender(w)
		var events stream
		if job.stream {
			// As in vLLM, the server sends a stream's headers before the request waits in the
			// queue.
			w.Header().Set("content-type", "text/event-stream; charset=utf-8")
			w.Header().Set("cache-control", "no-cache")
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			if events = a.events(answer); events.queued != nil && send(events.queued()...) != nil {
				return
			}
		}
		run, err := s.enter(r.Context(), job.lora, job.salt, job.tokens, len(job.words))
		if err != nil {
			return
		}
		defer run.leave()
		answer.tokens = usage{job.promptTokens, len(job.words), job.promptTokens + len(job.words), run.cached}
		if job.stream {
			err = run.stream(r.Context(), send, events, job.words)
		} else if err = run.await(r.Context(), 1, len(job.words)); err == nil {
			w.Header().Set("content-type", "application/json")
			err = json.NewEncoder(w).Encode(a.whole(answer))
		}
		if err == nil {
			s.ended(len(job.words), job.finish)
		}
	}
}

// tokenize waits until earlier prompts are tokenized, and then for this prompt's simulated time. An
// error means that the client has disconnected.
func (s *Server) tokenize(ctx context.Context, tokens int) error {
	if s.cfg.TokenizerRate <= 0 {
		return nil
	}
	select {
	case s.tokenizer <- struct{}{}:
		defer func() { <-s.tokenizer }()
		return pause(ctx, time.Duration(float64(tokens)/s.cfg.TokenizerRate*float64(time.Second)))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// count counts a request, and returns its number. If err is nil, the returned error is a simulated
// failure, or nil.
func (s *Server) count(err error) (uint64, error) {
	number := s.requests.Add(1)
	if err == nil && s.fails(number) {
		err = &apiError{s.cfg.Status, "SimulatedFailure", "a simulated failure (fail rate)"}
	}
	return number, err
}

// n * FailRate (rounded down) of the first n requests fail.
func (s *Server) fails(n uint64) bool {
	return math.Floor(float64(n)*s.cfg.FailRate) > math.Floor(float64(n-1)*s.cfg.FailRate)
}

type running struct {
	cached *promptDetails // nil without prefix caching
	leave  func()         // called at the end of the answer
	await  func(ctx context.Context, had, tokens int) error
}

func (s *Server) enter(ctx context.Context, lora, salt string, tokens []uint32, answer int) (r running, err error) {
	seq := &sequence{lora: lora, blocks: (len(tokens) + answer + blockSize - 1) / blockSize, answer: max(answer, 1)}
	read := len(tokens)
	seq.begin = func() int {
		s.promptTokens.Add(uint64(len(tokens)))
		if s.cache != nil {
			r.cached = &promptDetails{s.cache.read(tokens, lora, salt)}
			read -= r.cached.CachedTokens
		}
		return max(read, 1)
	}
	if err := s.engine.enter(ctx, seq); err != nil {
		return running{}, err
	}
	var firstToken time.Duration
	if s.engine.steps == nil {
		seq.begin()
		firstToken = s.cfg.TimeToFirstToken
		if r.cached != nil {
			firstToken = firstToken * time.Duration(read) / time.Duration(max(len(tokens), 1))
		}
		if s.cfg.PrefillRate > 0 {
			firstToken += time.Duration(float64(read) / s.cfg.PrefillRate * float64(time.Second))
		}
	}
	r.leave = func() { // as in vLLM, the counters grow when a request ends
		s.prefillTokens.Add(uint64(read))
		s.prefillTime.Add(int64(firstToken))
		s.prefills.Add(1)
		s.engine.leave(seq)
	}
	if s.engine.steps != nil {
		r.await = func(ctx context.Context, _, tokens int) error { return seq.await(ctx, tokens) }
		err = seq.await(ctx, 1)
		firstToken = seq.prefilled
	} else {
		r.await = func(ctx context.Context, had, tokens int) error {
			return pause(ctx, time.Duration(tokens-had)*s.cfg.InterTokenLatency)
		}
		err = pause(ctx, firstToken)
	}
	if err != nil {
		r.leave()
		return running{}, err
	}
	s.engine.prefilled(seq)
	return r, nil
}

func (s *Server) ended(tokens int, finish string) {
	s.generationTokens.Add(uint64(tokens))
	if finish == "length" {
		s.cut.Add(1)
	} else {
		s.stopped.Add(1)
	}
}

func (r *running) stream(ctx context.Context, send func(...event) error, events stream, words []string) error {
	space := ""
	for i, word := range words {
		if err := r.await(ctx, max(i, 1), i+1); err != nil {
			return err
		}
		if i == 0 && events.first != nil {
			if err := send(events.first()...); err != nil {
				return err
			}
		}
		if err := send(events.piece(i, space+word)); err != nil {
			return err
		}
		space = " "
	}
	return send(events.last()...)
}

func sender(w http.ResponseWriter) func(...event) error {
	flusher := http.NewResponseController(w)
	return func(events ...event) error {
		for _, e := range events {
			data, isRaw := e.data.(json.RawMessage)
			if !isRaw {
				var err error
				if data, err = json.Marshal(e.data); err != nil {
					return err
				}
			}
			name := ""
			if e.name != "" {
				name = "event: " + e.name + "\n"
			}
			if _, err := fmt.Fprintf(w, "%sdata: %s\n\n", name, data); err != nil {
				return err
			}
		}
		return flusher.Flush()
	}
}

func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failWith sends an error response for an *apiError. Any other error means that the client has
// disconnected.
func failWith(w http.ResponseWriter, err error, fail func(http.ResponseWriter, *apiError)) {
	if failure := (*apiError)(nil); errors.As(err, &failure) {
		fail(w, failure)
	}
}

func writeError(w http.ResponseWriter, e *apiError) {
	writeStatus(w, e.status, map[string]any{"error": map[string]any{
		"message": e.message, "type": e.kind, "param": nil, "code": e.status,
	}})
}

func writeStatus(w http.ResponseWriter, status int, v any) {
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // fails only if the client has disconnected
}
