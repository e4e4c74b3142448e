package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker/endpoint"
)

const (
	// pagesTTL is how long a batch of pages stays published. A slower process reads the pages
	// itself.
	pagesTTL = 200 * time.Millisecond
	// maxPages bounds the pages of a batch: more than one process reads in batchDelay. Each process
	// reads further pages itself.
	maxPages = 1024
)

// PageReader reads the metrics pages of model servers. *endpoint.Registry implements it.
type PageReader interface {
	// Receive takes another process's reading of a page.
	Receive(addr netip.AddrPort, page uint64, r endpoint.Reading, now time.Time) error
	// Share sets the number of processes that read pages.
	Share(processes int)
}

// Pages publishes readings of metrics pages, so that only one of the processes whose pools have a
// server reads its page.
type Pages struct {
	topic   *channel.Topic
	batches *batches
	reader  func() PageReader

	mu      sync.Mutex
	waiting []page
	seen    int
}

type page struct {
	Addr    netip.AddrPort   `json:"a"`
	Page    uint64           `json:"p"`
	Reading endpoint.Reading `json:"r"`
}

// NewPages makes a Pages. reader is called once the channel runs.
func NewPages(c *channel.Channel, reader func() PageReader) *Pages {
	p := &Pages{topic: c.Topic("pages"), reader: reader, seen: 1}
	p.batches = newBatches(p.topic, batchLimits{delay: batchDelay, ttl: pagesTTL}, p.take)
	p.topic.Subscribe(func(_ context.Context, u channel.Update) error {
		p.share()
		var errs []error
		for _, it := range u.Items {
			if err := p.receive(it.Value); err != nil {
				errs = append(errs, fmt.Errorf("batch %s: %w", it.Key, err))
			}
		}
		return errors.Join(errs...)
	})
	return p
}

func (p *Pages) share() {
	processes := 1 + p.topic.Subscribers()
	p.mu.Lock()
	changed := processes != p.seen
	p.seen = processes
	p.mu.Unlock()
	if changed {
		p.reader().Share(processes)
	}
}

func (p *Pages) receive(value []byte) error {
	var list []page
	if err := json.Unmarshal(value, &list); err != nil {
		return err
	}
	if len(list) > maxPages {
		return fmt.Errorf("%d pages; a batch has %d at most", len(list), maxPages)
	}
	now := time.Now()
	var errs []error
	for _, r := range list {
		if err := p.reader().Receive(r.Addr, r.Page, r.Reading, now); err != nil {
			errs = append(errs, fmt.Errorf("page of %s: %w", r.Addr, err))
		}
	}
	return errors.Join(errs...)
}

// Add publishes a page soon. See picker.Config.Read.
func (p *Pages) Add(addr netip.AddrPort, number uint64, r endpoint.Reading) {
	p.share()
	if !p.topic.Subscribed() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) >= maxPages {
		return
	}
	if p.waiting = append(p.waiting, page{addr, number, r}); len(p.waiting) == 1 {
		p.batches.notify()
	}
}

func (p *Pages) take() []byte {
	p.mu.Lock()
	list := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	value, err := json.Marshal(list)
	if err != nil { // unreachable: pages have finite numbers
		return nil
	}
	return value
}

// Run publishes until ctx ends.
func (p *Pages) Run(ctx context.Context) error { return p.batches.Run(ctx) }
