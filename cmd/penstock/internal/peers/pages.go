package peers

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker/endpoint"
)

const (
	pagesTTL = 200 * time.Millisecond
	// Pages beyond maxPages are not published; each process reads them.
	maxPages = 1024
)

// PageReader reads the metrics pages of model servers. *endpoint.Registry implements it.
type PageReader interface {
	// Receive takes another process's reading of a page.
	Receive(addr netip.AddrPort, page uint64, r endpoint.Reading, now time.Time) error
	// Share sets the number of processes that read pages.
	Share(processes int)
}

// Pages publishes readings of metrics pages, so that only one process reads each page.
type Pages struct {
	*lists[page]
	reader func() PageReader
	seen   atomic.Int64
}

type page struct {
	Addr    netip.AddrPort   `json:"a"`
	Page    uint64           `json:"p"`
	Reading endpoint.Reading `json:"r"`
}

// NewPages makes a Pages. reader is called once the channel runs.
func NewPages(c *channel.Channel, reader func() PageReader) *Pages {
	p := &Pages{reader: reader}
	p.seen.Store(1)
	p.lists = newLists(c.Topic("pages"), batchLimits{delay: batchDelay, ttl: pagesTTL}, maxPages, p.receive)
	return p
}

func (p *Pages) share() {
	processes := 1 + p.topic.Subscribers()
	if before := p.seen.Swap(int64(processes)); before != int64(processes) {
		p.reader().Share(processes)
	}
}

func (p *Pages) receive(list []page) error {
	p.share()
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

// Add publishes a page in the next batch.
func (p *Pages) Add(addr netip.AddrPort, number uint64, r endpoint.Reading) {
	p.share()
	if p.topic.Subscribed() {
		p.add(page{addr, number, r})
	}
}
