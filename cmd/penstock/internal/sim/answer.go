package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"
)

// answer is the JSON of a completion, or of one chunk of a streamed one, in OpenAI's form.
type answer struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"` // Unix seconds
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index   int          `json:"index"`
	Message *chatMessage `json:"message,omitempty"` // of a chat, not streamed
	Delta   *chatMessage `json:"delta,omitempty"`   // of a chat, streamed
	Text    *string      `json:"text,omitempty"`    // of a completion
	Finish  *string      `json:"finish_reason"`
}

type chatMessage struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`

	Details *promptDetails `json:"prompt_tokens_details,omitempty"` // with prefix caching
}

type promptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// form holds the differences between the two kinds of completion.
type form struct {
	chat          bool
	prefix        string // of ids
	object, chunk string
	whole, piece  func(text string) choice
}

var chatForm = form{
	chat: true, prefix: "chatcmpl", object: "chat.completion", chunk: "chat.completion.chunk",
	whole: func(text string) choice { return choice{Message: &chatMessage{Role: "assistant", Content: &text}} },
	piece: func(text string) choice { return choice{Delta: &chatMessage{Content: &text}} },
}

var completionForm = form{
	prefix: "cmpl", object: "text_completion", chunk: "text_completion",
	whole: func(text string) choice { return choice{Text: &text} },
	piece: func(text string) choice { return choice{Text: &text} },
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request)       { s.complete(w, r, chatForm) }
func (s *Server) completion(w http.ResponseWriter, r *http.Request) { s.complete(w, r, completionForm) }

// complete serves a completion: it reads the request, waits for a slot, and generates the answer.
func (s *Server) complete(w http.ResponseWriter, r *http.Request, f form) {
	job, err := s.read(w, r, f.chat)
	number := s.completions.Add(1)
	if err == nil && s.fails(number) {
		err = &apiError{s.cfg.Status, "SimulatedFailure", "a simulated failure (fail rate)"}
	}
	var failure *apiError
	if errors.As(err, &failure) {
		writeError(w, failure)
		return
	} else if err != nil {
		return // the client went away while it sent its request
	}
	if job.stream {
		// As in vLLM, a stream's headers do not wait for the queue.
		w.Header().Set("content-type", "text/event-stream; charset=utf-8")
		w.Header().Set("cache-control", "no-cache")
		if http.NewResponseController(w).Flush() != nil {
			return
		}
	}
	blocks := (job.promptTokens + len(job.words) + blockSize - 1) / blockSize
	seq := &sequence{lora: job.lora, blocks: blocks}
	if s.engine.enter(r.Context(), seq) != nil {
		return // the client went away while it waited
	}
	defer s.engine.leave(seq)
	s.promptTokens.Add(uint64(job.promptTokens))

	head := answer{ID: fmt.Sprintf("%s-%s-%d", f.prefix, s.cfg.Name, number), Created: time.Now().Unix(), Model: job.model}
	tokens := usage{PromptTokens: job.promptTokens, CompletionTokens: len(job.words), TotalTokens: job.promptTokens + len(job.words)}
	job.firstToken = s.cfg.TimeToFirstToken
	read := job.promptTokens
	if s.cache != nil {
		cached := s.cache.read(job.tokens, job.lora, job.salt)
		tokens.Details = &promptDetails{cached}
		read -= cached
		job.firstToken = job.firstToken * time.Duration(read) / time.Duration(max(job.promptTokens, 1))
	}
	if s.cfg.PrefillRate > 0 {
		job.firstToken += time.Duration(float64(read) / s.cfg.PrefillRate * float64(time.Second))
	}
	if job.stream {
		err = s.stream(r.Context(), w, f, job, head, tokens)
	} else {
		err = s.whole(r.Context(), w, f, job, head, tokens)
	}
	if err != nil {
		return // the client went away during the answer
	}
	s.generationTokens.Add(uint64(len(job.words)))
	if job.finish == "length" {
		s.cut.Add(1)
	} else {
		s.stopped.Add(1)
	}
}

// fails reports whether the n-th completion, from 1, fails: the number of failures after n is n times FailRate, rounded down.
func (s *Server) fails(n uint64) bool {
	return math.Floor(float64(n)*s.cfg.FailRate) > math.Floor(float64(n-1)*s.cfg.FailRate)
}

// whole sends the answer without streaming, after the time that all tokens take.
func (s *Server) whole(ctx context.Context, w http.ResponseWriter, f form, o job, a answer, tokens usage) error {
	if err := pause(ctx, o.firstToken+time.Duration(len(o.words)-1)*s.cfg.InterTokenLatency); err != nil {
		return err
	}
	c := f.whole(strings.Join(o.words, " "))
	c.Finish = &o.finish
	a.Object, a.Choices, a.Usage = f.object, []choice{c}, &tokens
	w.Header().Set("content-type", "application/json")
	return json.NewEncoder(w).Encode(a)
}

// stream sends one server-sent event for each token, then the finish reason, then the usage if requested, then [DONE].
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, f form, o job, a answer, tokens usage) error {
	flusher := http.NewResponseController(w)
	send := func(choices []choice) error {
		a.Choices = choices
		data, err := json.Marshal(a)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
			return err
		}
		return flusher.Flush()
	}
	a.Object = f.chunk
	delay, space := o.firstToken, ""
	for i, word := range o.words {
		if err := pause(ctx, delay); err != nil {
			return err
		}
		c := f.piece(space + word)
		if i == 0 && c.Delta != nil {
			c.Delta.Role = "assistant"
		}
		if err := send([]choice{c}); err != nil {
			return err
		}
		delay, space = s.cfg.InterTokenLatency, " "
	}
	end := f.piece("")
	end.Finish = &o.finish
	if err := send([]choice{end}); err != nil {
		return err
	}
	if o.usage {
		a.Usage = &tokens
		if err := send([]choice{}); err != nil {
			return err
		}
	}
	_, err := fmt.Fprint(w, "data: [DONE]\n\n")
	return err
}

// pause waits for d, or until ctx ends.
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

func writeError(w http.ResponseWriter, e *apiError) {
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(e.status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{ // fails only if the client is gone
		"message": e.message, "type": e.kind, "param": nil, "code": e.status,
	}})
}
