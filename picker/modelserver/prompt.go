package modelserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// maxBody bounds a request's body, in bytes: twice Penstock's own limit.
const maxBody = 64 << 20

// fields are the fields of a request that have an effect. All others are ignored, such as sampling
// options.
type fields struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	Prompt              json.RawMessage `json:"prompt"`
	Stream              bool            `json:"stream"`
	StreamOptions       streamOptions   `json:"stream_options"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	IgnoreEOS           bool            `json:"ignore_eos"` // generate until max_tokens
	N                   *int            `json:"n"`
	CacheSalt           string          `json:"cache_salt"`
	TokenIDs            []uint32        `json:"token_ids"` // instead of the prompt's words

	Input              json.RawMessage `json:"input"` // in Responses and embeddings
	Instructions       string          `json:"instructions"`
	MaxOutputTokens    *int            `json:"max_output_tokens"`
	PreviousResponseID string          `json:"previous_response_id"`

	System json.RawMessage `json:"system"` // a string or a list of parts

	Dimensions     *int   `json:"dimensions"`
	EncodingFormat string `json:"encoding_format"`

	Query     string            `json:"query"`
	Documents []json.RawMessage `json:"documents"`
	TopN      int               `json:"top_n"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"` // a string or a list of parts
}

type job struct {
	model        string
	lora         string
	words        []string
	promptTokens int
	tokens       []uint32
	salt         string
	finish       string // "stop", or "length" if max_tokens cut the answer
	stream       bool
	usage        bool
}

type apiError struct {
	status  int
	kind    string
	message string
}

func (e *apiError) Error() string { return e.message }

func badRequest(format string, args ...any) error {
	return &apiError{http.StatusBadRequest, "BadRequestError", fmt.Sprintf(format, args...)}
}

// decode reads and decodes a request's body. For an invalid request it returns an *apiError. Any
// other error means that the client has disconnected.
func (s *Server) decode(w http.ResponseWriter, r *http.Request, f *fields) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	s.last.Store(newReceived(r, body))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return &apiError{http.StatusRequestEntityTooLarge, "BadRequestError",
			fmt.Sprintf("the request is larger than %d bytes", maxBody)}
	} else if err != nil {
		return err
	}
	if err := json.Unmarshal(body, f); err != nil {
		return badRequest("the body is not the JSON of a request: %v", err)
	}
	return nil
}

func (s *Server) read(w http.ResponseWriter, r *http.Request, a api) (job, error) {
	var f fields
	if err := s.decode(w, r, &f); err != nil {
		return job{}, err
	}
	if f.N != nil && *f.N != 1 {
		return job{}, badRequest("n is %d; this simulator supports only 1", *f.N)
	}
	text, words, err := a.prompt(&f)
	if err != nil {
		return job{}, err
	}
	limit, err := a.limit(&f)
	if err != nil {
		return job{}, err
	}
	tokens, err := s.prompt(w, r, &f, words)
	if err != nil {
		return job{}, err
	}
	j, err := s.job(f, limit, text, len(tokens))
	j.tokens, j.salt = tokens, f.CacheSalt
	return j, err
}

func (s *Server) render(w http.ResponseWriter, r *http.Request, a api, show func(rendered) any) {
	j, err := s.read(w, r, a)
	if err != nil {
		failWith(w, err, a.fail)
		return
	}
	writeJSON(w, show(rendered{j.tokens}))
}

type rendered struct {
	TokenIDs []uint32 `json:"token_ids"`
}

func (s *Server) servedModel(named string) (model, lora string, err error) {
	switch {
	case named == "" || named == s.cfg.Model:
		return s.cfg.Model, "", nil
	case slices.Contains(s.loras(), named):
		return named, named, nil
	}
	return "", "", &apiError{http.StatusNotFound, "NotFoundError", fmt.Sprintf("The model `%s` does not exist.", named)}
}

func (s *Server) job(f fields, limit *int, text string, promptTokens int) (job, error) {
	model, lora, err := s.servedModel(f.Model)
	if err != nil {
		return job{}, err
	}
	o := job{model: model, lora: lora, promptTokens: promptTokens, stream: f.Stream,
		usage: f.StreamOptions.IncludeUsage, finish: "stop"}
	o.words = append([]string{s.cfg.Name, "answers:"}, strings.Fields(text)...)
	if room := s.engine.blocks*blockSize - promptTokens; limit != nil && *limit > room || len(o.words) > room {
		return o,
			badRequest("the prompt of %d tokens and its answer do not fit into a context of %d tokens", promptTokens,
				s.engine.blocks*blockSize)
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

func (j *job) text() string { return strings.Join(j.words, " ") }

func atLeastOne(field string, limit *int) (*int, error) {
	if limit != nil && *limit < 1 {
		return nil, badRequest("%s must be at least 1, got %d", field, *limit)
	}
	return limit, nil
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func (f *fields) chatPrompt() (last string, words []string, err error) {
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

func contentText(raw json.RawMessage) (string, error) {
	var text string
	if absent(raw) || json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(raw, &parts) != nil {
		return "", errors.New("neither a string nor a list of parts")
	}
	var texts []string
	for _, part := range parts {
		switch part.Type {
		case "text", "input_text", "output_text": // the last two belong to the Responses API
			texts = append(texts, part.Text)
		}
	}
	return strings.Join(texts, " "), nil
}

func promptText(field string, raw json.RawMessage) (string, []string, error) {
	var text string
	var texts []string
	var numbers []int
	switch {
	case absent(raw):
		return "", nil, badRequest("%s is missing", field)
	case json.Unmarshal(raw, &text) == nil:
	// Before the list of strings, because a list of IDs may be long.
	case json.Unmarshal(raw, &numbers) == nil && len(numbers) > 0:
		text = strings.Trim(fmt.Sprint(numbers), "[]")
	case json.Unmarshal(raw, &texts) == nil && len(texts) == 1:
		text = texts[0]
	default:
		return "", nil,
			badRequest("%s is neither a string, nor a list of one string, nor a list of token numbers", field)
	}
	return text, strings.Fields(text), nil
}
