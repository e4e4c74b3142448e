package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/multicluster/channel"
)

// refusals puts what proxies refuse on the board, one source a proxy, and tells the other processes: one of them may write
// status for all. It implements server.Reports.
type refusals struct {
	board *status.Board
	topic *channel.Topic
	wake  chan struct{}

	mu     sync.Mutex
	others map[string]map[string]time.Time // peer -> proxy -> when it is taken back; zero: not
}

// absence is how long what a process told of its proxies holds when the process is gone: they are on their way to another
// one, which will be refused the same.
const absence = time.Minute

func newRefusals(b *status.Board, c *channel.Channel) *refusals {
	r := &refusals{board: b, wake: make(chan struct{}, 1), others: map[string]map[string]time.Time{}}
	r.topic = c.Topic("refused", r.hear)
	return r
}

// Refused implements server.Reports.
func (r *refusals) Refused(gateway, node string, reports []report.Report) {
	proxy := gateway + " " + node
	r.mu.Lock() // two streams of one node, old and new, come in order
	defer r.mu.Unlock()
	r.board.Replace(source(proxy), reports...)
	// It has spoken here: what it said elsewhere, to a process that is gone, is old.
	for peer, proxies := range r.others {
		if until, ok := proxies[proxy]; ok && !until.IsZero() {
			r.drop(peer, proxy)
		}
	}
	if len(reports) == 0 {
		r.topic.Withdraw(proxy)
		return
	}
	if raw, err := json.Marshal(reports); err == nil { // plain values
		r.topic.Tell(channel.Fact{Name: proxy, Body: raw})
	}
}

func source(proxy string) string { return "proxy " + proxy }

// elsewhere is the source of what a proxy of another process refuses.
func elsewhere(peer, proxy string) string { return source(proxy) + " at " + peer }

// hear takes in what the proxies of another process refuse.
func (r *refusals) hear(_ context.Context, n channel.News) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.others[n.Peer]
	if known == nil {
		known = map[string]time.Time{}
		r.others[n.Peer] = known
	}
	if n.All {
		for proxy, until := range known {
			if until.IsZero() {
				known[proxy] = time.Now().Add(absence)
			}
		}
		poke(r.wake)
	}
	for _, proxy := range n.Gone {
		r.drop(n.Peer, proxy)
	}
	for _, f := range n.Facts {
		var reports []report.Report
		if bad := json.Unmarshal(f.Body, &reports); bad != nil {
			err = errors.Join(err, fmt.Errorf("proxy %s: %w", f.Name, bad))
			continue
		}
		known[f.Name] = time.Time{}
		r.board.Replace(elsewhere(n.Peer, f.Name), reports...)
	}
	return err
}

func (r *refusals) drop(peer, proxy string) {
	delete(r.others[peer], proxy)
	r.board.Replace(elsewhere(peer, proxy))
}

// Run takes back what processes told that are gone for good.
func (r *refusals) Run(ctx context.Context) error {
	for {
		next := time.Hour
		r.mu.Lock()
		for peer, proxies := range r.others {
			for proxy, until := range proxies {
				if until.IsZero() {
					continue
				}
				if left := time.Until(until); left > 0 {
					next = min(next, left)
				} else {
					r.drop(peer, proxy)
				}
			}
		}
		r.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.wake:
		case <-time.After(next):
		}
	}
}
