package picks

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Clients are connections that send requests repeatedly.
type Clients struct {
	Address     string
	Connections int
}

// Request encodes an HTTP/1.1 chat completion. route is the header x-bench.
func Request(route string, body []byte) []byte {
	head := fmt.Sprintf(
		"POST /v1/chat/completions HTTP/1.1\r\nx-bench: %s\r\nhost: models.example\r\ncontent-type: "+
			"application/json\r\nuser-agent: bench\r\naccept: */*\r\ncontent-length: %d\r\n\r\n", route, len(body))
	return append([]byte(head), body...)
}

const chatModel = "meta-llama/Llama-3.1-8B-Instruct"

// Chat returns a chat completion of about size bytes. n is only at the end of its prompt.
func Chat(size, n int) []byte {
	const sentence = "The quick brown fox jumps over the lazy dog, and \\\"quotes\\\" it.\\n"
	text := strings.Repeat(sentence, max(1, (size-160)/len(sentence)))
	return fmt.Appendf(nil, `{"model":"%s","stream":true,"max_tokens":256,"messages":[`+
		`{"role":"system","content":"You help."},{"role":"user","content":"%s%d"}]}`, chatModel, text, n)
}

// Saturate sends requests for the duration d, and returns their number. A status other than 200 is
// an error.
func (c Clients) Saturate(ctx context.Context, requests [][]byte, d time.Duration) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var (
		answered atomic.Int64
		wait     sync.WaitGroup
		once     sync.Once
		failure  error
	)
	for i := range c.Connections {
		wait.Go(func() {
			if err := c.connection(ctx, requests[i%len(requests)], &answered); err != nil {
				once.Do(func() { failure = err })
				cancel()
			}
		})
	}
	wait.Wait()
	return answered.Load(), failure
}

func (c Clients) connection(ctx context.Context, request []byte, answered *atomic.Int64) error {
	conn, err := net.Dial("tcp", c.Address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	for ctx.Err() == nil {
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return err
		}
		if _, err := conn.Write(request); err != nil {
			return err
		}
		status, length, err := readHead(r)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Address, err)
		}
		rest, err := r.Peek(length)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(status, []byte("HTTP/1.1 200")) {
			return fmt.Errorf("%s %s", status, rest)
		}
		if _, err := r.Discard(length); err != nil {
			return err
		}
		answered.Add(1)
	}
	return nil
}
