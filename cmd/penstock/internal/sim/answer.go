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

// answer is the JSON of a completion, or of one piece of a streamed one, in OpenAI's form.
type answer struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"` // Unix seconds
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index   int     `json:"index"`
	Message *speech `json:"message,omitempty"` // of a chat, in one piece
	Delta   *speech `json:"delta,omitempty"`   // of a chat, streamed
	Text    *string `json:"text,omitempty"`    // of a completion
	Finish  *string `json:"finish_reason"`
}

type speech struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

// form is what differs between the two kinds of completion.
type form struct {
	chat          bool
	prefix        string // of ids
	object, chunk string
	whole, piece  func(text string) choice
}

var chatForm = form{
	chat: true, prefix: "chatcmpl", object: "chat.completion", chunk: "chat.completion.chunk",
	whole: func(text string) choice { return choice{Message: &speech{Role: "assistant", Content: &text}} },
	piece: func(text string) choice { return choice{Delta: &speech{Content: &text}} },
}

var completionForm = form{
	prefix: "cmpl", object: "text_completion", chunk: "text_completion",
	whole: func(text string) choice { return choice{Text: &text} },
	piece: func(text string) choice { return choice{Text: &text} },
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request)       { s.complete(w, r, chatForm) }
func (s *Server) completion(w http.ResponseWriter, r *http.Request) { s.complete(w, r, completionForm) }

// complete takes a request through the whole server: read, wait for a slot, generate.
func (s *Server) complete(w http.ResponseWriter, r *http.Request, f form) {
	order, err := s.read(w, r, f.chat)
	number := s.completions.Add(1)
	if err == nil && s.fails(number) {
		err = &refusal{s.cfg.Status, "SimulatedFailure", "this simulator was told to fail"}
	}
	var refused *refusal
	if errors.As(err, &refused) {
		refuse(w, refused)
		return
	} else if err != nil {
		return // the client went away while it sent its request
	}
	if order.stream {
		// As vLLM does: a stream's headers do not wait for the queue.
		w.Header().Set("content-type", "text/event-stream; charset=utf-8")
		w.Header().Set("cache-control", "no-cache")
		if http.NewResponseController(w).Flush() != nil {
			return
		}
	}
	blocks := (order.promptTokens + len(order.words) + blockSize - 1) / blockSize
	seq := &sequence{lora: order.lora, blocks: blocks}
	if s.engine.enter(r.Context(), seq) != nil {
		return // the client went away while it waited
	}
	defer s.engine.leave(seq)
	s.promptTokens.Add(uint64(order.promptTokens))

	head := answer{ID: fmt.Sprintf("%s-%s-%d", f.prefix, s.cfg.Name, number), Created: time.Now().Unix(), Model: order.model}
	tokens := usage{order.promptTokens, len(order.words), order.promptTokens + len(order.words)}
	if order.stream {
		err = s.stream(r.Context(), w, f, order, head, tokens)
	} else {
		err = s.whole(r.Context(), w, f, order, head, tokens)
	}
	if err != nil {
		return // the client went away while it was answered
	}
	s.generationTokens.Add(uint64(len(order.words)))
	if order.finish == "length" {
		s.cut.Add(1)
	} else {
		s.stopped.Add(1)
	}
}

// fails tells whether the n-th completion, from 1, is one of those that fail: at each point the share of failures so far
// is FailRate, rounded down.
func (s *Server) fails(n uint64) bool {
	return math.Floor(float64(n)*s.cfg.FailRate) > math.Floor(float64(n-1)*s.cfg.FailRate)
}

// whole answers in one piece, after the time that all tokens take.
func (s *Server) whole(ctx context.Context, w http.ResponseWriter, f form, o order, a answer, tokens usage) error {
	if err := pause(ctx, s.cfg.TimeToFirstToken+time.Duration(len(o.words)-1)*s.cfg.InterTokenLatency); err != nil {
		return err
	}
	c := f.whole(strings.Join(o.words, " "))
	c.Finish = &o.finish
	a.Object, a.Choices, a.Usage = f.object, []choice{c}, &tokens
	w.Header().Set("content-type", "application/json")
	return json.NewEncoder(w).Encode(a)
}

// stream answers with one server-sent event for each token, then the reason for the end, then the usage if it was asked
// for, then [DONE].
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, f form, o order, a answer, tokens usage) error {
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
	delay, space := s.cfg.TimeToFirstToken, ""
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

func refuse(w http.ResponseWriter, r *refusal) {
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(r.status)
	// The client may have gone; there is nobody else to tell.
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"message": r.message, "type": r.kind, "param": nil, "code": r.status,
	}})
}
