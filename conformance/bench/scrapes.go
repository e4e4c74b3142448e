package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/picks"
	"github.com/penstock-project/penstock/picker/endpoint"
)

// countedPages answers each scrape at once.
type countedPages struct{ n atomic.Int64 }

// RoundTrip implements http.RoundTripper.
func (c *countedPages) RoundTrip(*http.Request) (*http.Response, error) {
	c.n.Add(1)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{},
		Body: io.NopCloser(
			strings.NewReader(
				"vllm:num_requests_waiting 0\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n"))}, nil
}

// published is how long what one process reads takes to reach another (cmd/penstock/internal/peers,
// batchDelay).
const published = 20 * time.Millisecond

const (
	scrapedPages = 100
	scrapedSize  = 22 << 10 // as vLLM's with one model
	scrapesLast  = 10 * time.Second
)

// measureScrapes measures the CPU of reading the pages of 100 servers, of a pool that hardly picks,
// and of one whose picks have each page read every 50 ms. The servers are in this process, the
// reader is in its own.
func measureScrapes(ctx context.Context, _ config, out report) error {
	for _, m := range []struct{ name, kind string }{{"pick_idle", picks.Idle}, {"pick_scrape_50ms", picks.Busy}} {
		models, err := picks.StartPages(scrapedPages, scrapedSize)
		if err != nil {
			return err
		}
		defer models.Close()
		p := &pickers{servers: map[string]*process{}}
		defer p.close()
		if _, err := p.child(ctx, m.kind, models.Addresses); err != nil {
			return err
		}
		before, pages := time.Duration(0), int64(0)
		// the first pages, which are all read at once
		for _, wait := range []time.Duration{2 * time.Second, scrapesLast} {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(wait):
			}
			used, err := p.servers[m.kind].cpu()
			if err != nil {
				return err
			}
			read := models.Pages()
			before, pages, used, read = used, read, used-before, read-pages
			if wait == scrapesLast {
				out(m.name, "", 100*used.Seconds()/wait.Seconds())
				out(m.name, "pages", float64(read)/wait.Seconds())
			}
		}
	}
	return nil
}

// measureScrapeRate has two processes pick from a pool of 100 endpoints, 10 times a second in all.
// What one of them reads reaches the other.
func measureScrapeRate(ctx context.Context, _ config, out report) error {
	const endpoints, seconds = 100, 10
	pages := new(countedPages)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var specs []endpoint.Spec
	for i := range endpoints {
		specs = append(specs,
			endpoint.Spec{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 8000)})
	}
	type process struct {
		registry *endpoint.Registry
		pool     *endpoint.Snapshot
		leases   *endpoint.Leases
	}
	var processes []process
	for i := range 2 {
		share := func(addr netip.AddrPort, page uint64, read endpoint.Reading) {
			time.AfterFunc(published, func() { _ = processes[1-i].registry.Receive(addr, page, read, time.Now()) })
		}
		r := endpoint.NewRegistry(endpoint.Config{Transport: pages, Jitter: rand.Float64, Read: share})
		r.Share(2)
		processes = append(processes,
			process{r, r.Snapshot(endpoint.Metrics{}, nil, specs), endpoint.NewLeases("bench", time.Minute)})
	}
	for _, p := range processes {
		go func() { _ = p.registry.Run(ctx) }()
	}
	pick := func(i int) {
		p := processes[i%2]
		p.pool.MarkUsed()
		p.leases.Open(&p.pool.Endpoints[rand.IntN(endpoints)], endpoint.Holder{}, endpoint.Work{}, 0, time.Now()).
			Release()
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for i := range 10 * (seconds + 2) { // the first 2 s read all pages, which were idle
		if i == 20 {
			pages.n.Store(0)
		}
		<-ticker.C
		pick(i)
	}
	out("scrape_rate", "", float64(pages.n.Load())/seconds/endpoints)
	return nil
}
