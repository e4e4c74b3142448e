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
	// method is scoring.proto's.
	method = "/penstock.scoring.v1.Scorer/Score"
	// timeout is how long a pick waits for a scorer.
	timeout = 5 * time.Millisecond
	// maxCandidates bounds a request, maxAnswer an answer in bytes, and maxCalls the calls in flight to a scorer.
	maxCandidates = 1024
	maxAnswer     = 64 << 10
	maxCalls      = 256
	// maxHeader bounds an answer's header and trailer, and window what arrives before it is read, in bytes.
	maxHeader = 16 << 10
	window    = 128 << 10
	// leftOut is how long a scorer gets no request after maxFailures in a row: each would cost a pick its time.
	leftOut     = time.Second
	maxFailures = 5
)

// Outcome is how an attempt to ask a scorer ended.
type Outcome string

// The outcomes.
const (
	Scored  Outcome = "scored"
	Failed  Outcome = "failed"  // an error, no answer within 5 ms, or a wrong number of scores
	Skipped Outcome = "skipped" // not asked: it fails, too many calls are in flight, or there are too many candidates
)

// Client asks one scorer.
type Client struct {
	conn     *grpc.ClientConn
	calls    atomic.Int64
	failures atomic.Int64 // in a row
	until    atomic.Int64 // of being left out, in nanoseconds since start
}

// start is the zero of times kept in atomics.
var start = time.Now()

// NewClient returns a client, which connects at once. The caller closes it.
func NewClient(a dial.Address, t dial.TLS) (*Client, error) {
	conn, err := dial.Connect(a, t, grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithMaxHeaderListSize(maxHeader), grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window))
	if err != nil {
		return nil, fmt.Errorf("scorer %s: %w", a, err)
	}
	conn.Connect()
	return &Client{conn: conn}, nil
}

// Close ends the connection. Calls in flight fail.
func (c *Client) Close() { _ = c.conn.Close() }

// Score returns a score from 0 to 1 for each candidate, or none.
func (c *Client) Score(ctx context.Context, q *Question) ([]float64, Outcome, error) {
	if q.candidates > maxCandidates {
		return nil, Skipped, nil
	}
	now := int64(time.Since(start))
	if until := c.until.Load(); until > now || until > 0 && !c.until.CompareAndSwap(until, now+int64(leftOut)) { // one trial
		return nil, Skipped, nil
	}
	if c.calls.Add(1) > maxCalls {
		c.calls.Add(-1)
		return nil, Skipped, nil
	}
	defer c.calls.Add(-1)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var answer scores
	err := c.conn.Invoke(limited, method, q, &answer)
	if err == nil && len(answer) != q.candidates {
		err = errors.New("the answer has another number of scores than there are candidates")
	}
	switch {
	case err == nil:
		c.failures.Store(0)
		c.until.Store(0)
		return answer, Scored, nil
	case ctx.Err() == nil && c.failures.Add(1) >= maxFailures:
		c.until.Store(int64(time.Since(start) + leftOut))
	}
	return nil, Failed, err
}
