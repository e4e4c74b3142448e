package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker/accesslog"
)

const (
	// batchDelay is how long a completion waits for others to be published with.
	batchDelay = 20 * time.Millisecond
	// batchTTL is how long a batch stays published for a process that is slow or has just disconnected.
	batchTTL = 5 * time.Second
	// maxWaiting bounds what waits to be published. A completion beyond it costs the picker in question a lease, until that
	// expires.
	maxWaiting = 100_000
)

// Completions publishes requests that have ended and that another process picked for. An Envoy asks any picker, and each of
// its workers logs to any process. Otherwise pickers would count requests that have ended, weigh pods by them, and in the end
// find an idle pool full.
type Completions struct {
	channel *channel.Channel
	topic   *channel.Topic
	wake    chan struct{}

	mu      sync.Mutex
	waiting []accesslog.Entry
	batches uint64 // their names
}

// NewCompletions makes it. settle is called with the completions that peers publish.
func NewCompletions(c *channel.Channel, settle func(accesslog.Entry)) *Completions {
	e := &Completions{channel: c, topic: c.Topic("ends"), wake: make(chan struct{}, 1)}
	e.topic.Subscribe(func(_ context.Context, u channel.Update) error {
		var errs []error
		for _, it := range u.Items {
			var entries []accesslog.Entry
			if err := json.Unmarshal(it.Value, &entries); err != nil {
				errs = append(errs, fmt.Errorf("batch %s: %w", it.Key, err))
				continue
			}
			for _, entry := range entries {
				settle(entry)
			}
		}
		return errors.Join(errs...)
	})
	return e
}

// Add publishes a completion soon. See picker.Config.Forward.
func (e *Completions) Add(entry accesslog.Entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) >= maxWaiting {
		return
	}
	if e.waiting = append(e.waiting, entry); len(e.waiting) == 1 {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// Run publishes until ctx ends.
func (e *Completions) Run(ctx context.Context) error {
	type batch struct {
		name  string
		until time.Time
	}
	var published []batch
	expiry := time.NewTimer(time.Hour)
	defer expiry.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.wake:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(batchDelay):
			}
			if name := e.publish(); name != "" {
				published = append(published, batch{name, time.Now().Add(batchTTL)})
			}
		case <-expiry.C:
		}
		for len(published) > 0 && !published[0].until.After(time.Now()) {
			e.topic.Retract(published[0].name)
			published = published[1:]
		}
		if len(published) > 0 {
			expiry.Reset(time.Until(published[0].until))
		}
	}
}

// publish publishes what waits as one item, whose key it returns.
func (e *Completions) publish() (name string) {
	e.mu.Lock()
	entries := e.waiting
	e.waiting = nil
	e.batches++
	name = strconv.FormatUint(e.batches, 10)
	e.mu.Unlock()
	if e.channel.Isolated() {
		return "" // the process that picked is gone
	}
	value, err := json.Marshal(entries)
	if err != nil { // of plain values
		return ""
	}
	e.topic.Publish(channel.Item{Key: name, Value: value})
	return name
}
