package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

type sample struct {
	late          time.Duration
	ttft, end     time.Duration // time since the departure
	input, cached int           // in tokens
	server        string        // the server that answered, if the router shows it
	err           error
}

const maxLine = 1 << 20

func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}}
}

func post(ctx context.Context, client *http.Client, url string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("content-type", "application/json")
	resp, err := client.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		err = errors.Join(fmt.Errorf("%s: %s", resp.Status, text), resp.Body.Close())
	}
	return resp, err
}

// complete sends one request. An answer with another number of tokens is an error.
func complete(ctx context.Context, client *http.Client, url string, body []byte, tokens int) (s sample) {
	begin := time.Now()
	s.err = func() error {
		resp, err := post(ctx, client, url, body)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		s.server = resp.Header.Get("x-served-by")
		return s.read(resp.Body, begin, tokens)
	}()
	if s.end = time.Since(begin); s.err != nil {
		s.err = fmt.Errorf("after %.3g s, first token after %.3g s: %w", s.end.Seconds(), s.ttft.Seconds(), s.err)
	}
	return s
}

// Bytes in the events of a stream. TTFT ends at the first event with non-empty content. One of the
// last events has the usage.
var (
	content = []byte(`"content":"`)
	empty   = []byte(`"content":""`)
	usage   = []byte(`"usage":{`)
	done    = []byte("data: [DONE]")
)

func (s *sample) read(from io.Reader, begin time.Time, tokens int) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	pieces, ended := 0, false
	for lines.Scan() {
		line := lines.Bytes()
		if bytes.Contains(line, content) && !bytes.Contains(line, empty) {
			if pieces++; pieces == 1 {
				s.ttft = time.Since(begin)
			}
		}
		if bytes.Contains(line, usage) {
			if err := s.count(line); err != nil {
				return err
			}
		}
		ended = ended || bytes.Equal(line, done)
	}
	switch {
	case lines.Err() != nil:
		return lines.Err()
	case !ended:
		return errors.New("the stream has no end")
	case pieces != tokens:
		return fmt.Errorf("the answer has %d tokens, want %d", pieces, tokens)
	}
	return nil
}

func (s *sample) count(line []byte) error {
	var event struct {
		Usage struct {
			Prompt  int `json:"prompt_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal(bytes.TrimPrefix(line, []byte("data: ")), &event); err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	s.input, s.cached = event.Usage.Prompt, event.Usage.Details.Cached
	return nil
}
