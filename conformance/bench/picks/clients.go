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

// Clients are connections to a gateway that send one request again and again.
type Clients struct {
	Address     string
	Connections int
}

// Request encodes a chat completion. The value of x-bench chooses the route.
func Request(route string, body []byte) []byte {
	head := fmt.Sprintf(
		"POST /v1/chat/completions HTTP/1.1\r\nx-bench: %s\r\nhost: models.example\r\ncontent-type: "+
			"application/json\r\nuser-agent: bench\r\naccept: */*\r\ncontent-length: %d\r\n\r\n", route, len(body))
	return append([]byte(head), body...)
}

// chatModel is the model of Chat.
const chatModel = "meta-llama/Llama-3.1-8B-Instruct"

// Chat is a chat completion of about size bytes; n makes its prompt differ from that of others at
// its end.
func Chat(size, n int) []byte {
	const sentence = "The quick brown fox jumps over the lazy dog, and \\\"quotes\\\" it.\\n"
	text := strings.Repeat(sentence, max(1, (size-160)/len(sentence)))
	return fmt.Appendf(nil, `{"model":"`+chatModel+
		`","stream":true,"max_tokens":256,"messages":[{"role":"system","content":"You help."},{"role":"user","content":"%s%d"}]}`, text, n)
}

// Saturate sends requests for a time, each connection the next one when the last is answered, and
// returns how many were answered. Every answer must be a 200. Each connection sends one of the
// requests in turn.
func (c Clients) Saturate(ctx context.Context, requests [][]byte, d time.Duration) (int64, error) {
	return c.run(ctx, requests, d, 0, nil)
}

// Pace does the same at a number of requests a second, all connections together.
func (c Clients) Pace(ctx context.Context, requests [][]byte, d time.Duration, rate float64) (int64, error) {
	return c.run(ctx, requests, d, c.every(rate), nil)
}

// Time does the same, and returns how long each request took.
func (c Clients) Time(ctx context.Context, requests [][]byte, d time.Duration, rate float64) (took []time.Duration,
	err error) {
	var mu sync.Mutex
	_, err = c.run(ctx, requests, d, c.every(rate), func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		took = append(took, d)
	})
	return took, err
}

// every is the time between two requests of a connection.
func (c Clients) every(rate float64) time.Duration {
	return time.Duration(float64(time.Second) * float64(c.Connections) / rate)
}

func (c Clients) run(ctx context.Context, requests [][]byte, d, every time.Duration, note func(time.Duration)) (int64,
	error) {
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
			if err := c.connection(ctx, requests[i%len(requests)], every,
				time.Duration(i)*every/time.Duration(c.Connections), &answered, note); err != nil {
				once.Do(func() { failure = err })
				cancel()
			}
		})
	}
	wait.Wait()
	return answered.Load(), failure
}

func (c Clients) connection(ctx context.Context, request []byte, every, offset time.Duration, answered *atomic.Int64,
	note func(time.Duration)) error {
	conn, err := net.Dial("tcp", c.Address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	next := time.Now().Add(offset)
	for ctx.Err() == nil {
		if every > 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Until(next)):
			}
			next = next.Add(every)
		}
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return err
		}
		sent := time.Now()
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
		if answered.Add(1); note != nil {
			note(time.Since(sent))
		}
	}
	return nil
}
