package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// maxBody is the largest request body, in bytes: twice Penstock's own limit.
const maxBody = 64 << 20

// fields of a request of either kind. Others are ignored: most are sampling options, which have no effect here.
type fields struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	Prompt              json.RawMessage `json:"prompt"`
	Stream              bool            `json:"stream"`
	StreamOptions       streamOptions   `json:"stream_options"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	IgnoreEOS           bool            `json:"ignore_eos"` // vLLM's: continue until max_tokens
	N                   *int            `json:"n"`
	CacheSalt           string          `json:"cache_salt"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"` // a string, or a list of parts
}

// job is a valid request and the answer to it.
type job struct {
	model        string
	lora         string   // model, if that is an adapter
	words        []string // the answer's tokens
	promptTokens int
	tokens       []uint32 // of the prompt
	salt         string
	finish       string // "stop", or "length" if max_tokens cut the answer
	stream       bool
	usage        bool // send the usage at the end of a stream
	firstToken   time.Duration
}

// apiError is an error response in OpenAI's form.
type apiError struct {
	status  int
	kind    string
	message string
}

func (e *apiError) Error() string { return e.message }

func badRequest(format string, args ...any) error {
	return &apiError{http.StatusBadRequest, "BadRequestError", fmt.Sprintf(format, args...)}
}

// read reads a request's body, keeps it for /debug/last, and turns it into a job. chat is true for chat completions. An
// *apiError is the response to an invalid request; any other error means that the client is gone.
func (s *Server) read(w http.ResponseWriter, r *http.Request, chat bool) (job, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	s.last.Store(newReceived(r, body))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return job{}, &apiError{http.StatusRequestEntityTooLarge, "BadRequestError", fmt.Sprintf("the request is larger than %d bytes", maxBody)}
	} else if err != nil {
		return job{}, err
	}
	var f fields
	if err := json.Unmarshal(body, &f); err != nil {
		return job{}, badRequest("the body is not the JSON of a completion request: %v", err)
	}
	if f.N != nil && *f.N != 1 {
		return job{}, badRequest("n is %d; this simulator supports only 1", *f.N)
	}
	text, words, err := f.prompt(chat)
	if err != nil {
		return job{}, err
	}
	j, err := s.job(f, chat, text, len(words))
	j.tokens, j.salt = tokenIDs(words), f.CacheSalt
	return j, err
}

// render serves the token IDs of a prompt, as vLLM does, without running it.
func (s *Server) render(w http.ResponseWriter, r *http.Request, chat bool) {
	j, err := s.read(w, r, chat)
	var failure *apiError
	switch {
	case errors.As(err, &failure):
		writeError(w, failure)
	case err != nil: // the client is gone
	case chat:
		writeJSON(w, rendered{j.tokens})
	default:
		writeJSON(w, []rendered{{j.tokens}})
	}
}

type rendered struct {
	TokenIDs []uint32 `json:"token_ids"`
}

// job returns the job of a request; text is the prompt, or the last message of a chat.
func (s *Server) job(f fields, chat bool, text string, promptTokens int) (job, error) {
	o := job{model: f.Model, promptTokens: promptTokens, stream: f.Stream, usage: f.StreamOptions.IncludeUsage, finish: "stop"}
	switch {
	case f.Model == "":
		o.model = s.cfg.Model
	case slices.Contains(s.cfg.LoRAs, f.Model):
		o.lora = f.Model
	case f.Model != s.cfg.Model:
		return o, &apiError{http.StatusNotFound, "NotFoundError", fmt.Sprintf("The model `%s` does not exist.", f.Model)}
	}
	o.words = append([]string{s.cfg.Name, "answers:"}, strings.Fields(text)...)

	limit := f.MaxTokens
	if f.MaxCompletionTokens != nil {
		limit = f.MaxCompletionTokens
	}
	if limit == nil && !chat {
		sixteen := 16 // the API's default for completions; chats have no default limit
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
		for once := o.words; len(o.words) < *limit; {
			o.words = append(o.words, once...)
		}
		o.words = o.words[:*limit]
	}
	return o, nil
}

// prompt returns the prompt, or the last message of a chat, and the words of the prompt or of all messages.
func (f *fields) prompt(chat bool) (last string, words []string, err error) {
	if !chat {
		return promptText(f.Prompt)
	}
	if len(f.Messages) == 0 {
		return "", nil, badRequest("messages is empty")
	}
	for i, m := range f.Messages {
		if last, err = contentText(m.Content); err != nil {
			return "", nil, badRequest("messages[%d].content: %v", i, err)
		}
		words = append(words, strings.Fields(last)...)
	}
	return last, words, nil
}

// contentText reads a message's content: a string, null, or a list of parts, of which it returns the texts.
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
func promptText(raw json.RawMessage) (string, []string, error) {
	var text string
	var texts []string
	var numbers []int
	switch {
	case len(raw) == 0:
		return "", nil, badRequest("prompt is missing")
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
		return "", nil, badRequest("prompt is neither a string, nor a list of one string, nor a list of token numbers")
	}
	return text, strings.Fields(text), nil
}
