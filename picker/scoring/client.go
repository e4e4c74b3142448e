package scoring

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/picker/dial"
)

const (
	method        = "/penstock.scoring.v1.Scorer/Score"
	timeout       = 5 * time.Millisecond
	maxCandidates = 1024
	maxAnswer     = 64 << 10
	maxCalls      = 256
	maxAddresses  = 4
	// maxHeader bounds an answer's headers and trailers, and window the received data that is not
	// read yet, both in bytes.
	maxHeader = 16 << 10
	window    = 128 << 10
	// After maxFailures failures in a row, an address gets no request for leftOut, because each
	// failure delays a pick.
	leftOut     = time.Second
	maxFailures = 5
)

// Outcome is how a request to a scorer ended.
type Outcome string

const (
	Scored  Outcome = "scored"
	Failed  Outcome = "failed"  // an error, no answer within 5 ms, or a wrong number of scores
	Skipped Outcome = "skipped" // not called: all addresses failed recently, or there are too many calls or candidates
)

// Client calls one scorer, at the first of its addresses that answers. Its methods are safe for
// concurrent use.
type Client struct {
	targets []*target
	calls   atomic.Int64
}

type target struct {
	conn     *grpc.ClientConn
	failures atomic.Int64
	until    atomic.Int64 // in nanoseconds since start
}

var start = time.Now()

// NewClient returns a Client, and begins to connect to the first maxAddresses addresses. The caller
// closes the Client.
func NewClient(addresses []dial.Address, t dial.TLS) (*Client, error) {
	c := new(Client)
	for _, a := range addresses[:min(len(addresses), maxAddresses)] {
		conn, err := dial.Connect(a, t,
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(maxAnswer)),
			grpc.WithMaxHeaderListSize(maxHeader), grpc.WithInitialWindowSize(window),
			grpc.WithInitialConnWindowSize(window))
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("scorer %s: %w", a, err)
		}
		conn.Connect()
		c.targets = append(c.targets, &target{conn: conn})
	}
	return c, nil
}

// Close ends the connections. Calls in flight fail.
func (c *Client) Close() {
	for _, t := range c.targets {
		_ = t.conn.Close()
	}
}

// Score returns a score from 0 to 1 for each candidate of a Question; nil for any Outcome but
// Scored. If an address fails before the timeout, Score calls the next one.
func (c *Client) Score(ctx context.Context, q *Question) ([]float64, Outcome, error) {
	if q.candidates > maxCandidates {
		return nil, Skipped, nil
	}
	if c.calls.Add(1) > maxCalls {
		c.calls.Add(-1)
		return nil, Skipped, nil
	}
	defer c.calls.Add(-1)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	outcome, err := Skipped, error(nil)
	for _, t := range c.targets {
		if !t.ready(int64(time.Since(start))) {
			continue
		}
		var answer scores
		if answer, err = t.ask(limited, q); err == nil {
			return answer, Scored, nil
		}
		outcome = Failed
		if ctx.Err() == nil { // otherwise the request ended, and the scorer may be healthy
			t.failed()
		}
		if limited.Err() != nil {
			break
		}
	}
	return nil, outcome, err
}

func (t *target) ready(now int64) bool {
	until := t.until.Load()
	return until <= now && (until == 0 || t.until.CompareAndSwap(until, now+int64(leftOut)))
}

func (t *target) failed() {
	if t.failures.Add(1) >= maxFailures {
		t.until.Store(int64(time.Since(start) + leftOut))
	}
}

func (t *target) ask(ctx context.Context, q *Question) (scores, error) {
	var answer scores
	if err := t.conn.Invoke(ctx, method, q, &answer); err != nil {
		return nil, err
	}
	if len(answer) != q.candidates {
		return nil, errors.New("the answer has another number of scores than there are candidates")
	}
	t.failures.Store(0)
	t.until.Store(0)
	return answer, nil
}
