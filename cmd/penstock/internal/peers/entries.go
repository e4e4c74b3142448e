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
	// batchDelay is how long an entry waits for others to be published with.
	batchDelay = 20 * time.Millisecond
	// batchTTL is how long a batch stays published for a process that is slow or has just disconnected.
	batchTTL = 5 * time.Second
	// maxWaiting bounds what waits to be published. The lease of an entry beyond it lives until it expires.
	maxWaiting = 100_000
)

// Entries publishes access log entries of requests that another process picked for. An Envoy asks any picker, and each of its
// workers logs to any process. Otherwise pickers would count requests that have ended, weigh pods by them, and in the end
// find an idle pool full; and they would not count requests that go on.
type Entries struct {
	channel *channel.Channel
	topic   *channel.Topic
	wake    chan struct{}

	mu      sync.Mutex
	waiting []accesslog.Entry
	batches uint64 // their names
}

// NewEntries makes it. log is called with the entries that peers publish.
func NewEntries(c *channel.Channel, log func(accesslog.Entry)) *Entries {
	e := &Entries{channel: c, topic: c.Topic("entries"), wake: make(chan struct{}, 1)}
	e.topic.Subscribe(func(_ context.Context, u channel.Update) error {
		var errs []error
		for _, it := range u.Items {
			var entries []accesslog.Entry
			if err := json.Unmarshal(it.Value, &entries); err != nil {
				errs = append(errs, fmt.Errorf("batch %s: %w", it.Key, err))
				continue
			}
			for _, entry := range entries {
				log(entry)
			}
		}
		return errors.Join(errs...)
	})
	return e
}

// Add publishes an entry soon. See picker.Config.Forward.
func (e *Entries) Add(entry accesslog.Entry) {
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
func (e *Entries) Run(ctx context.Context) error {
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
func (e *Entries) publish() (name string) {
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
