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
)

const batchDelay = 20 * time.Millisecond

type batchLimits struct {
	delay time.Duration
	ttl   time.Duration
	most  int // bound of the published bytes; 0: none
}

// batches publishes facts as items, and retracts each after its TTL. Later subscribers miss the
// item.
type batches struct {
	topic  *channel.Topic
	limits batchLimits
	take   func() []byte
	wake   chan struct{}
}

func newBatches(t *channel.Topic, l batchLimits, take func() []byte) *batches {
	return &batches{topic: t, limits: l, take: take, wake: make(chan struct{}, 1)}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
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

type lists[T any] struct {
	*batches
	most int

	mu      sync.Mutex
	waiting []T
}

func newLists[T any](t *channel.Topic, l batchLimits, most int, receive func([]T) error) *lists[T] {
	f := &lists[T]{most: most}
	f.batches = newBatches(t, l, f.take)
	t.Subscribe(eachItem(func(it channel.Item) error {
		list, err := fromJSON[[]T](it.Value)
		if err == nil {
			err = receive(list)
		}
		if err != nil {
			return fmt.Errorf("batch %s: %w", it.Key, err)
		}
		return nil
	}))
	return f
}

func (f *lists[T]) add(fact T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) >= f.most {
		return
	}
	if f.waiting = append(f.waiting, fact); len(f.waiting) == 1 {
		poke(f.wake)
	}
}

func (f *lists[T]) take() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.waiting
	f.waiting = nil
	return toJSON(list)
}

func eachItem(f func(channel.Item) error) func(context.Context, channel.Update) error {
	return func(_ context.Context, u channel.Update) error {
		var errs []error
		for _, it := range u.Items {
			errs = append(errs, f(it))
		}
		return errors.Join(errs...)
	}
}

func fromJSON[T any](value []byte) (out T, err error) {
	err = json.Unmarshal(value, &out)
	return out, err
}

func toJSON(v any) []byte {
	value, _ := json.Marshal(v)
	return value
}
