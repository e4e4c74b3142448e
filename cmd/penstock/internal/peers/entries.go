package peers

import (
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker/accesslog"
)

const (
	// entriesDelay is short, because picks of full pools wait until requests end
	// (picker.Config.EndWait).
	entriesDelay = 2 * time.Millisecond
	entriesTTL   = 5 * time.Second
	// Entries beyond maxWaiting are dropped. Their leases end by expiry.
	maxWaiting = 100_000
)

// Entries publishes access log entries of requests for which another process picked, because an
// Envoy may log to any process. A picker would otherwise count ended requests.
type Entries struct {
	*lists[accesslog.Entry]
	channel *channel.Channel
}

// NewEntries makes an Entries. log receives the entries that peers publish.
func NewEntries(c *channel.Channel, log func(accesslog.Entry)) *Entries {
	limits := batchLimits{delay: entriesDelay, ttl: entriesTTL}
	return &Entries{newLists(c.Topic("entries"), limits, maxWaiting, func(entries []accesslog.Entry) error {
		for _, entry := range entries {
			log(entry)
		}
		return nil
	}), c}
}

// Add publishes an entry in the next batch, if a process can receive it.
func (e *Entries) Add(entry accesslog.Entry) {
	if !e.channel.Isolated() {
		e.add(entry)
	}
}
