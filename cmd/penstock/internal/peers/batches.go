package peers

import (
	"context"
	"strconv"
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
)

// batchDelay is how long a fact waits for others to share a batch.
const batchDelay = 20 * time.Millisecond

type batchLimits struct {
	delay time.Duration
	ttl   time.Duration
	most  int // bytes published at a time; 0: any
}

// batches publishes facts for connected processes only, as items that are retracted after a while.
type batches struct {
	topic  *channel.Topic
	limits batchLimits
	take   func() []byte
	wake   chan struct{}
}

func newBatches(t *channel.Topic, l batchLimits, take func() []byte) *batches {
	return &batches{topic: t, limits: l, take: take, wake: make(chan struct{}, 1)}
}

func (b *batches) notify() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Run publishes until ctx ends.
func (b *batches) Run(ctx context.Context) error {
	type batch struct {
		name  string
		size  int
		until time.Time
	}
	var published []batch
	number, bytes := uint64(0), 0
	expiry := time.NewTimer(time.Hour)
	defer expiry.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.wake:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(b.limits.delay):
			}
			if value := b.take(); value != nil {
				number++
				name := strconv.FormatUint(number, 10)
				b.topic.Publish(channel.Item{Key: name, Value: value})
				published, bytes = append(published, batch{name, len(value), time.Now().Add(b.limits.ttl)}),
					bytes+len(value)
			}
		case <-expiry.C:
		}
		var gone []string
		for len(published) > 0 &&
			(b.limits.most > 0 && bytes > b.limits.most || !published[0].until.After(time.Now())) {
			gone, bytes = append(gone, published[0].name), bytes-published[0].size
			published = published[1:]
		}
		if len(gone) > 0 {
			b.topic.Retract(gone...)
		}
		if len(published) > 0 {
			expiry.Reset(time.Until(published[0].until))
		}
	}
}
