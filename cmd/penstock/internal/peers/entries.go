package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker/accesslog"
)

const (
	// entriesDelay is how long an entry waits for others: picks of full pools wait for ends
	// (picker.Config.EndWait).
	entriesDelay = 2 * time.Millisecond
	// entriesTTL is how long a batch stays published for processes that are slow or just
	// disconnected.
	entriesTTL = 5 * time.Second
	// maxWaiting bounds the entries that wait. The lease of a dropped entry lasts until it expires.
	maxWaiting = 100_000
)

// Entries publishes access log entries of requests that another process picked for, because an
// Envoy's workers log to any process. Without these entries a picker would count requests that have
// ended, until an idle pool seems full. It would also miss that requests go on.
type Entries struct {
	channel *channel.Channel
	batches *batches

	mu      sync.Mutex
	waiting []accesslog.Entry
}

// NewEntries makes an Entries. log is called with the entries that peers publish.
func NewEntries(c *channel.Channel, log func(accesslog.Entry)) *Entries {
	topic := c.Topic("entries")
	e := &Entries{channel: c}
	e.batches = newBatches(topic, batchLimits{delay: entriesDelay, ttl: entriesTTL}, e.take)
	topic.Subscribe(func(_ context.Context, u channel.Update) error {
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
		e.batches.notify()
	}
}

// Run publishes until ctx ends.
func (e *Entries) Run(ctx context.Context) error { return e.batches.Run(ctx) }

func (e *Entries) take() []byte {
	e.mu.Lock()
	entries := e.waiting
	e.waiting = nil
	e.mu.Unlock()
	if e.channel.Isolated() {
		return nil // the process that picked is gone
	}
	value, err := json.Marshal(entries)
	if err != nil { // plain values
		return nil
	}
	return value
}
