package features

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

const question = `{"model": "llama", "messages": [{"role": "user", "content": "repeat this"}]}`

type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) by() string { return r.header.Get("x-served-by") }

// client opens a connection for each request, and follows no redirect.
func client() *http.Client {
	return &http.Client{Timeout: process.Limit, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func do(c *http.Client, req *http.Request) (reply, error) {
	resp, err := c.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(text)}, err
}

func overSocket(path string) *http.Client {
	return &http.Client{Timeout: process.Limit, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}}
}

func (s *site) base() string { return "http://" + s.address("gateway") }

func (s *site) url(path string) string {
	return s.base() + strings.TrimSuffix(path, "/") + "/v1/chat/completions"
}

func request(ctx context.Context, url, body string, headers ...string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("content-type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return req, nil
}

func (s *site) post(url, body string, headers ...string) (reply, error) {
	req, err := request(s.Context(), url, body, headers...)
	if err != nil {
		return reply{}, err
	}
	return do(client(), req)
}

func (s *site) get(url string) (reply, error) { return s.read(client(), url) }

func (s *site) read(c *http.Client, url string) (reply, error) {
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, url, nil)
	if err != nil {
		return reply{}, err
	}
	return do(c, req)
}

func (s *site) ask(path, body string, headers ...string) (reply, error) {
	return s.post(s.url(path), body, headers...)
}

func (s *site) answered(path, body string, headers ...string) reply {
	s.Helper()
	got, err := s.ask(path, body, headers...)
	if err != nil || got.status != http.StatusOK {
		s.Fatalf("%s: %d %s %s %v, want %d", path, got.status, got.by(), got.body, err, http.StatusOK)
	}
	return got
}

// served sends a request that must get 200, and returns the server.
func (s *site) served(path string, headers ...string) string {
	s.Helper()
	return s.answered(path, question, headers...).by()
}

// answers polls until a chat completion has a status.
func (s *site) answers(path string, status int) (got reply) {
	s.Helper()
	s.Eventually(fmt.Sprintf("%s answers %d", path, status), func() (err error) {
		if got, err = s.ask(path, question); err == nil && got.status != status {
			err = fmt.Errorf("got %d %s, want %d", got.status, got.body, status)
		}
		return err
	})
	return got
}

// goes polls until the named server answers the given number of successive requests with 200.
func (s *site) goes(path, by string, times int) {
	s.Helper()
	s.Eventually(path+" is served by "+by, func() error {
		for range times {
			if got, err := s.ask(path, question); err != nil || got.status != http.StatusOK || got.by() != by {
				return fmt.Errorf("got %d from %q: %s %w, want 200 from %q", got.status, got.by(), got.body, err, by)
			}
		}
		return nil
	})
}

type received struct {
	Headers http.Header `json:"headers"`
	Body    string      `json:"body"`
}

func (s *site) last(server string) (last received) {
	s.Helper()
	got, err := s.get("http://" + s.address(server) + "/debug/last")
	if err == nil {
		err = json.Unmarshal([]byte(got.body), &last)
	}
	if err != nil {
		s.Fatal(got.body, err)
	}
	return last
}

// stream sends a streamed request, and calls see for each event before [DONE].
func (s *site) stream(ctx context.Context, path, prompt string, see func(event string)) error {
	body := fmt.Sprintf(`{"model": "llama", "stream": true, "messages": [{"role": "user", "content": %q}]}`, prompt)
	req, err := request(ctx, s.url(path), body)
	if err != nil {
		return err
	}
	resp, err := client().Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("got status %d, want 200", resp.StatusCode)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		event, ok := strings.CutPrefix(lines.Text(), "data: ")
		if event == "[DONE]" {
			return nil
		}
		if ok {
			see(event)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

// occupy begins a response that lasts until end is called. It returns the server.
func (s *site) occupy(path string) (by string, end func(), err error) {
	ctx, end := context.WithCancel(s.Context())
	body := fmt.Sprintf(`{"model": "llama", "stream": true, "messages": [{"role": "user", "content": %q}]}`,
		strings.Repeat("word ", 3000))
	req, err := request(ctx, s.url(path), body)
	if err != nil {
		return "", end, err
	}
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		return "", end, err
	}
	s.Cleanup(func() { end(); _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		return "", end, fmt.Errorf("got status %d, want 200", resp.StatusCode)
	}
	return resp.Header.Get("x-served-by"), end, nil
}

type traffic struct {
	s      *site
	stop   context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	sent   int
	failed []string
}

// traffic sends requests to a path, one after another, until end.
func (s *site) traffic(path string, headers ...string) *traffic {
	ctx, stop := context.WithCancel(s.Context())
	tr := &traffic{s: s, stop: stop}
	tr.done.Go(func() {
		for ctx.Err() == nil {
			got, err := s.ask(path, question, headers...)
			tr.mu.Lock()
			if tr.sent++; err != nil || got.status != http.StatusOK {
				tr.failed = append(tr.failed, fmt.Sprintf("request %d: %d %s %v", tr.sent, got.status, got.body, err))
			}
			tr.mu.Unlock()
		}
	})
	s.Cleanup(func() { stop(); tr.done.Wait() })
	return tr
}

func (tr *traffic) flows(requests int) {
	tr.s.Helper()
	count := func() int {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		return tr.sent
	}
	want := count() + requests
	tr.s.Eventually("requests are answered", func() error {
		if n := count(); n < want {
			return fmt.Errorf("%d requests are answered, want %d", n, want)
		}
		return nil
	})
}

// end stops the requests. At most few of them may have failed.
func (tr *traffic) end(few int) {
	tr.s.Helper()
	tr.stop()
	tr.done.Wait()
	if n := len(tr.failed); n > few {
		tr.s.Errorf("%d of %d requests failed:\n%s", n, tr.sent, strings.Join(tr.failed[:min(5, n)], "\n"))
	}
}
