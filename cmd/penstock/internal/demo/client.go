package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
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

// long is a question with an answer of so many tokens.
func long(model, text string, tokens int) chat {
	q := question(model, text)
	q.MaxTokens, q.IgnoreEOS = tokens, true
	return q
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
func (d *show) ask(ctx context.Context, base string, c chat) (answer, error) {
	began := time.Now()
	resp, err := d.post(ctx, base, c)
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

func (d *show) post(ctx context.Context, base string, c chat) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+completions, strings.NewReader(c.json()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("content-type", "application/json")
	return d.http.Do(req)
}

// exchange shows a question to a path of the first gateway, and the answer, which a server of a
// name with a prefix must give.
func (d *show) exchange(path string, c chat, from string) answer {
	d.curl(path, c)
	a := must(d.ask(d.ctx, d.url+path, c))
	d.answer(a)
	check(a.expectFrom(from))
	return a
}

// expectFrom returns an error unless an answer succeeded and is from a server whose name begins
// with prefix.
func (a answer) expectFrom(prefix string) error {
	if a.Status != http.StatusOK || !strings.HasPrefix(a.By, prefix) {
		return fmt.Errorf("expected 200 from one of %s*, got %d from %q: %s", prefix, a.Status, a.By, a.Text)
	}
	return nil
}

// get returns the status and the body of a GET.
func (d *show) get(url string) (int, []byte) {
	resp := must(d.http.Do(must(http.NewRequestWithContext(d.ctx, http.MethodGet, url, nil))))
	defer resp.Body.Close()
	return resp.StatusCode, must(io.ReadAll(resp.Body))
}

// lastRequest returns a model server's last completion request.
func (d *show) lastRequest(address string) (last struct {
	Headers http.Header
	Body    string
}) {
	_, body := d.get("http://" + address + "/debug/last")
	check(json.Unmarshal(body, &last))
	return last
}

// stream is a streamed answer whose headers have arrived.
type stream struct {
	By, At string
	body   io.ReadCloser
	events *bufio.Scanner
}

// open requests a streamed answer and returns when its headers have arrived. The stream closes when
// the step ends.
func (d *show) open(base string, c chat) *stream {
	c.Stream = true
	resp := must(d.post(d.ctx, base, c))
	s := &stream{By: resp.Header.Get("x-served-by"), At: resp.Header.Get("x-served-at"), body: resp.Body,
		events: bufio.NewScanner(resp.Body)}
	d.opened = append(d.opened, s)
	expect(resp.StatusCode == http.StatusOK, "a stream, got %s", resp.Status)
	return s
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
	return "", errors.Join(fmt.Errorf("the stream ended without [DONE]: %w", io.ErrUnexpectedEOF), s.events.Err())
}

// rest reads to the end and returns the number of chunks.
func (s *stream) rest() (int, error) {
	for n := 0; ; n++ {
		if _, err := s.next(); err != nil {
			if err == io.EOF {
				err = nil
			}
			return n, err
		}
	}
}
