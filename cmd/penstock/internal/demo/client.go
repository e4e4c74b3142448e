package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const completions = "/v1/chat/completions"

// chat is a chat completion request of OpenAI's API.
type chat struct {
	Model     string    `json:"model"`
	Messages  []message `json:"messages"`
	MaxTokens int       `json:"max_tokens,omitempty"`
	IgnoreEOS bool      `json:"ignore_eos,omitempty"` // continue to max_tokens
	Stream    bool      `json:"stream,omitempty"`
	Route     *bool     `json:"route,omitempty"` // of a pool with a processor: whether it chooses the server
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func question(model, text string) chat {
	return chat{Model: model, Messages: []message{{Role: "user", Content: text}}}
}

func (c chat) json() string {
	text, _ := json.Marshal(c) // strings and numbers always marshal
	return string(text)
}

type answer struct {
	Status int
	By     string // the model server's name, from its response header
	At     string // its address, likewise
	Text   string
	Took   time.Duration
}

// ask posts a question to a base URL and reads the whole answer.
func (s *stage) ask(ctx context.Context, base string, c chat) (answer, error) {
	began := time.Now()
	resp, err := s.post(ctx, base, c)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, fmt.Errorf("read the answer: %w", err)
	}
	a := answer{Status: resp.StatusCode, By: resp.Header.Get("x-served-by"), At: resp.Header.Get("x-served-at"),
		Text: string(body), Took: time.Since(began)}
	var completion struct{ Choices []struct{ Message message } }
	if json.Unmarshal(body, &completion) == nil && len(completion.Choices) == 1 {
		a.Text = completion.Choices[0].Message.Content
	}
	return a, nil
}

func (s *stage) post(ctx context.Context, base string, c chat) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+completions, strings.NewReader(c.json()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("content-type", "application/json")
	return s.http.Do(req)
}

func (s *stage) get(ctx context.Context, url string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// stream is a streamed answer whose headers have arrived.
type stream struct {
	By, At string
	body   io.ReadCloser
	events *bufio.Scanner
}

// open requests a streamed answer and returns when its headers have arrived. The caller closes the
// stream.
func (s *stage) open(ctx context.Context, base string, c chat) (*stream, error) {
	c.Stream = true
	resp, err := s.post(ctx, base, c)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		return nil, fmt.Errorf("expected a stream, got %s: %s", resp.Status, text)
	}
	return &stream{By: resp.Header.Get("x-served-by"), At: resp.Header.Get("x-served-at"), body: resp.Body,
		events: bufio.NewScanner(resp.Body)}, nil
}

// next returns the text of the next chunk that has any. At the end it returns io.EOF if the stream
// was complete.
func (s *stream) next() (string, error) {
	for s.events.Scan() {
		data, ok := strings.CutPrefix(s.events.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			return "", io.EOF
		}
		var chunk struct{ Choices []struct{ Delta message } }
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return "", fmt.Errorf("a chunk of the stream is no JSON: %w", err)
		}
		if len(chunk.Choices) == 1 && chunk.Choices[0].Delta.Content != "" {
			return chunk.Choices[0].Delta.Content, nil
		}
	}
	if err := s.events.Err(); err != nil {
		return "", fmt.Errorf("the stream broke: %w", err)
	}
	return "", fmt.Errorf("the stream ended without [DONE]: %w", io.ErrUnexpectedEOF)
}

// rest reads to the end and returns the number of chunks.
func (s *stream) rest() (int, error) {
	for n := 0; ; n++ {
		if _, err := s.next(); err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}

func (s *stream) close() { _ = s.body.Close() }
