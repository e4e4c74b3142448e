package onetoken

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

const (
	maxAnswer = 64 << 10 // in bytes
	maxList   = 1 << 20  // in bytes
)

// ErrDenied means that the server does not have the API or the model, or requires a credential.
var ErrDenied = errors.New("the server denies probes")

type question struct {
	Model     string    `json:"model,omitempty"`
	Prompt    string    `json:"prompt,omitempty"`
	Messages  []message `json:"messages,omitempty"`
	MaxTokens int       `json:"max_tokens"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Ask requests a token, and returns nil after the server has computed it. base is the server's URL
// without a path. If model is "", Ask uses the first model that the server lists.
func Ask(ctx context.Context, by http.RoundTripper, base, model string) error {
	if model == "" {
		model = first(ctx, by, base)
	}
	err := ask(ctx, by, base, "/v1/completions", question{Model: model, Prompt: "1", MaxTokens: 1})
	if !errors.Is(err, ErrDenied) {
		return err
	}
	chat := question{Model: model, Messages: []message{{"user", "1"}}, MaxTokens: 1}
	return ask(ctx, by, base, "/v1/chat/completions", chat)
}

func ask(ctx context.Context, by http.RoundTripper, base, path string, q question) error {
	body, err := json.Marshal(q)
	if err != nil {
		return err
	}
	status, answer, err := call(ctx, by, http.MethodPost, base+path, body, maxAnswer)
	switch {
	case err != nil:
		return err
	case status == http.StatusOK:
		var completion struct {
			Choices []json.RawMessage `json:"choices"`
		}
		if err := json.Unmarshal(answer, &completion); err != nil || len(completion.Choices) == 0 {
			return errors.New("the answer to a probe has no choices")
		}
		return nil
	case status >= 300 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout,
		status == http.StatusNotImplemented:
		return fmt.Errorf("%w: %d for POST %s", ErrDenied, status, path)
	default:
		return fmt.Errorf("a probe is answered %d", status)
	}
}

func first(ctx context.Context, by http.RoundTripper, base string) string {
	status, answer, err := call(ctx, by, http.MethodGet, base+"/v1/models", nil, maxList)
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err != nil || status != http.StatusOK || json.Unmarshal(answer, &list) != nil || len(list.Data) == 0 {
		return ""
	}
	return list.Data[0].ID
}

func call(ctx context.Context, by http.RoundTripper, method, url string, body []byte, most int64) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("User-Agent", "penstock")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := by.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("the answer to a probe has more than %d bytes", most)
	}
	return resp.StatusCode, text, err
}
