package app

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker/accesslog"
)

const (
	// gatherEnds is how long the end of a request waits for others to be told with.
	gatherEnds = 20 * time.Millisecond
	// keepEnds is how long what was told stays to be read by a process that is slow or just away.
	keepEnds = 5 * time.Second
	// maxEnds bounds what waits to be told. What is beyond it costs the picker that is not told a lease, until that expires.
	maxEnds = 100_000
)

// ends tells the other processes of requests that have ended and that one of them picked for: an Envoy asks any picker, and
// each of its workers reports to whichever it happened to call. Without this the others would count requests that are long
// over, weigh pods by them, and in the end call a pool full that does nothing.
type ends struct {
	channel *channel.Channel
	topic   *channel.Topic
	wake    chan struct{}

	mu      sync.Mutex
	waiting []accesslog.Entry
	told    uint64 // names facts
}

// newEnds makes it; settle is told what the others tell.
func newEnds(c *channel.Channel, settle func(accesslog.Entry)) *ends {
	e := &ends{channel: c, wake: make(chan struct{}, 1)}
	e.topic = c.Topic("ends", func(_ context.Context, n channel.News) error {
		for _, f := range n.Facts {
			var entries []accesslog.Entry
			if err := json.Unmarshal(f.Body, &entries); err != nil {
				return err
			}
			for _, entry := range entries {
				settle(entry)
			}
		}
		return nil
	})
	return e
}

// Elsewhere is what picker.Config.Forward wants.
func (e *ends) Elsewhere(entry accesslog.Entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) >= maxEnds {
		return
	}
	if e.waiting = append(e.waiting, entry); len(e.waiting) == 1 {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// Run tells until ctx ends.
func (e *ends) Run(ctx context.Context) error {
	type fact struct {
		name  string
		until time.Time
	}
	var told []fact
	over := time.NewTimer(time.Hour)
	defer over.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.wake:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(gatherEnds):
			}
			if name := e.tell(); name != "" {
				told = append(told, fact{name, time.Now().Add(keepEnds)})
			}
		case <-over.C:
		}
		for len(told) > 0 && !told[0].until.After(time.Now()) {
			e.topic.Withdraw(told[0].name)
			told = told[1:]
		}
		if len(told) > 0 {
			over.Reset(time.Until(told[0].until))
		}
	}
}

// tell tells what waits, as one fact whose name it returns.
func (e *ends) tell() (name string) {
	e.mu.Lock()
	entries := e.waiting
	e.waiting = nil
	e.told++
	name = strconv.FormatUint(e.told, 10)
	e.mu.Unlock()
	if e.channel.Alone() {
		return "" // they are of a process that is gone
	}
	body, err := json.Marshal(entries)
	if err != nil { // of plain values
		return ""
	}
	e.topic.Tell(channel.Fact{Name: name, Body: body})
	return name
}
