//go:build lab && linux

package members

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

type load struct {
	*labtest.Load
	t     *testing.T
	pools []string
	mu    sync.Mutex
	by    map[string]int // answers by pool and cluster, such as "chat east"
}

// words is a prompt of more than 1 MB. Its words are so long that the prompt fits into the model's
// context.
var words = strings.Repeat(strings.Repeat("x", 1023)+" ", 1025)

// newLoad sends requests to pools. It starts once the address has answered for each pool.
func newLoad(t *testing.T, address string, pools ...string) *load {
	t.Helper()
	l := &load{t: t, pools: pools, by: map[string]int{}}
	for _, pool := range pools {
		labtest.Until(t, pool+" answers", func(ctx context.Context) error {
			return l.ask(ctx, address, pool, request{tokens: 1})
		})
	}
	l.Load = labtest.NewLoad(t)
	for _, pool := range pools {
		for what, r := range map[string]request{
			"plain":                     {tokens: 2},
			"plain on a new connection": {tokens: 1, fresh: true},
			"streamed":                  {tokens: 8, stream: true},
			"1 MB":                      {tokens: 1, prompt: words},
		} {
			pause := 30 * time.Millisecond
			if r.prompt != "" {
				pause = 400 * time.Millisecond // two cores process each body several times
			}
			l.Each(pool+", "+what, pause, func(ctx context.Context) error { return l.ask(ctx, address, pool, r) })
		}
	}
	return l
}

type request struct {
	tokens int
	stream bool
	fresh  bool // on a new connection
	prompt string
}

func (l *load) ask(ctx context.Context, address, pool string, r request) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	prompt := r.prompt
	if prompt == "" {
		prompt = "one two three four five six seven eight"
	}
	body := fmt.Sprintf(
		`{"model": "sim-model", "max_tokens": %d, "stream": %t, "messages": [{"role": "user", "content": %q}]}`,
		r.tokens, r.stream, prompt)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/chat/completions",
		strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Host, req.Close = pool+".example", r.fresh
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	by := resp.Header.Get("x-served-by")
	switch {
	case err != nil:
		return fmt.Errorf("%d by %q, after %d bytes: %w", resp.StatusCode, by, len(answer), err)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s by %q, reason %q: %s, want 200", resp.Status, by, resp.Header.Get("x-penstock-reason"),
			bytes.TrimSpace(answer[:min(len(answer), 300)]))
	case r.stream && !bytes.HasSuffix(bytes.TrimSpace(answer), []byte("[DONE]")):
		return fmt.Errorf("by %q, a stream without its end: %d bytes", by, len(answer))
	}
	cluster, _, _ := strings.Cut(by, "-")
	if cluster == "" {
		return errors.New("the answer does not name its server")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by[pool+" "+cluster]++
	return nil
}

func (l *load) counted() {
	sent, failed := l.Counts()
	measured.controlled(requests{sent: int(sent), failed: int(failed)})
}

func (l *load) count(pool, cluster string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by[pool+" "+cluster]
}

func (l *load) serves(clusters ...string) {
	l.t.Helper()
	for _, pool := range l.pools {
		for _, c := range clusters {
			from := l.count(pool, c)
			labtest.Until(l.t, c+" serves "+pool, func(context.Context) error {
				if n := l.count(pool, c) - from; n < 5 {
					return fmt.Errorf("%d requests, want 5", n)
				}
				return nil
			})
		}
	}
}

// idles waits until a cluster answers no requests while other clusters answer many.
func (l *load) idles(cluster string) {
	l.t.Helper()
	labtest.Until(l.t, cluster+" serves no more", func(context.Context) error {
		before := l.count("chat", cluster) + l.count("epp", cluster)
		l.Goes(40)
		if n := l.count("chat", cluster) + l.count("epp", cluster) - before; n > 0 {
			return fmt.Errorf("%d requests, want 0", n)
		}
		return nil
	})
}
