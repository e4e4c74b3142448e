package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// maxBody is the largest request that is read. Penstock's own limit is half of it.
const maxBody = 64 << 20

// fields are what a request of either kind may say. Others are ignored, as most sampling options make no difference here.
type fields struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	Prompt              json.RawMessage `json:"prompt"`
	Stream              bool            `json:"stream"`
	StreamOptions       streamOptions   `json:"stream_options"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	IgnoreEOS           bool            `json:"ignore_eos"` // vLLM's: go on until max_tokens
	N                   *int            `json:"n"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"` // a string, or a list of parts
}

// order is a request that was understood: what to say, and for how long.
type order struct {
	model        string
	lora         string   // model, if that is an adapter
	words        []string // the answer's tokens
	promptTokens int
	finish       string // "stop", or "length" when max_tokens cut the answer
	stream       bool
	usage        bool // asked for at the end of a stream
}

// refusal is an answer in OpenAI's form of an error.
type refusal struct {
	status  int
	kind    string
	message string
}

func (r *refusal) Error() string { return r.message }

func badRequest(format string, args ...any) error {
	return &refusal{http.StatusBadRequest, "BadRequestError", fmt.Sprintf(format, args...)}
}

// read reads a request's body, keeps it for /debug/last, and turns it into an order. chat tells which of the two kinds of
// request it is. A nil error means a valid order; a *refusal says what to answer; anything else is a client that went.
func (s *Server) read(w http.ResponseWriter, r *http.Request, chat bool) (order, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	s.last.Store(newReceived(r, body))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return order{}, &refusal{http.StatusRequestEntityTooLarge, "BadRequestError", fmt.Sprintf("the request is larger than %d bytes", maxBody)}
	} else if err != nil {
		return order{}, err
	}
	var f fields
	if err := json.Unmarshal(body, &f); err != nil {
		return order{}, badRequest("the body is not the JSON of a completion request: %v", err)
	}
	if f.N != nil && *f.N != 1 {
		return order{}, badRequest("n is %d; this simulator gives one answer", *f.N)
	}
	said, promptTokens, err := f.said(chat)
	if err != nil {
		return order{}, err
	}
	return s.order(f, chat, said, promptTokens)
}

// order decides what is answered to said, what the client said last.
func (s *Server) order(f fields, chat bool, said string, promptTokens int) (order, error) {
	o := order{model: f.Model, promptTokens: promptTokens, stream: f.Stream, usage: f.StreamOptions.IncludeUsage, finish: "stop"}
	switch {
	case f.Model == "":
		o.model = s.cfg.Model
	case slices.Contains(s.cfg.LoRAs, f.Model):
		o.lora = f.Model
	case f.Model != s.cfg.Model:
		return o, &refusal{http.StatusNotFound, "NotFoundError", fmt.Sprintf("The model `%s` does not exist.", f.Model)}
	}
	o.words = append([]string{s.cfg.Name, "says:"}, strings.Fields(said)...)

	limit := f.MaxTokens
	if f.MaxCompletionTokens != nil {
		limit = f.MaxCompletionTokens
	}
	if limit == nil && !chat {
		sixteen := 16 // what the API says for a completion; a chat has no limit of its own
		limit = &sixteen
	}
	if limit != nil && *limit < 1 {
		return o, badRequest("max_tokens must be at least 1, got %d", *limit)
	}
	if room := s.engine.blocks*blockSize - promptTokens; limit != nil && *limit > room || len(o.words) > room {
		return o, badRequest("the prompt of %d tokens and its answer do not fit into a context of %d tokens", promptTokens, s.engine.blocks*blockSize)
	}
	if limit != nil && (*limit < len(o.words) || f.IgnoreEOS) {
		o.finish = "length"
		for said := o.words; len(o.words) < *limit; {
			o.words = append(o.words, said...)
		}
		o.words = o.words[:*limit]
	}
	return o, nil
}

// said returns the last thing that the client said, and the number of tokens in everything it said.
func (f *fields) said(chat bool) (last string, tokens int, err error) {
	if !chat {
		return promptText(f.Prompt)
	}
	if len(f.Messages) == 0 {
		return "", 0, badRequest("messages is empty")
	}
	for i, m := range f.Messages {
		if last, err = contentText(m.Content); err != nil {
			return "", 0, badRequest("messages[%d].content: %v", i, err)
		}
		tokens += len(strings.Fields(last))
	}
	return last, tokens, nil
}

// contentText reads a message's content: a string, null, or a list of parts of which the text ones count.
func contentText(raw json.RawMessage) (string, error) {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(raw, &parts) != nil {
		return "", errors.New("neither a string nor a list of parts")
	}
	var texts []string
	for _, part := range parts {
		if part.Type == "text" {
			texts = append(texts, part.Text)
		}
	}
	return strings.Join(texts, " "), nil
}

// promptText reads a completion's prompt: a string, a list with one string, or the numbers of tokens.
func promptText(raw json.RawMessage) (string, int, error) {
	var text string
	var texts []string
	var numbers []int
	switch {
	case len(raw) == 0:
		return "", 0, badRequest("prompt is missing")
	case json.Unmarshal(raw, &text) == nil:
	case json.Unmarshal(raw, &texts) == nil && len(texts) == 1:
		text = texts[0]
	case json.Unmarshal(raw, &numbers) == nil && len(numbers) > 0:
		words := make([]string, len(numbers))
		for i, n := range numbers {
			words[i] = fmt.Sprint(n)
		}
		text = strings.Join(words, " ")
	default:
		return "", 0, badRequest("prompt is neither a string, nor a list of one string, nor a list of token numbers")
	}
	return text, len(strings.Fields(text)), nil
}
