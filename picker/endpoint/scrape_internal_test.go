package endpoint

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"net/netip"
	"testing"
)

type panicking struct{}

func (panicking) RoundTrip(*http.Request) (*http.Response, error) { panic("a bug") }

func TestScrape_PanicIsAFailedScrape(t *testing.T) {
	var page string
	r := NewRegistry(Config{Jitter: func() float64 { return 0 }, Transport: panicking{},
		OnPanic: func(p string, _ any, stack []byte) {
			if bytes.Contains(stack, []byte("RoundTrip")) {
				page = p
			}
		}})
	s := r.Snapshot(Metrics{}, nil, []Spec{{Addr: netip.MustParseAddrPort("192.0.2.1:8000")}})
	if _, err := r.scrape(context.Background(), s.Endpoints[0].source, nil, bufio.NewReader(nil)); err == nil ||
		page != "http://192.0.2.1:8000/metrics" {
		t.Errorf("got error %v, panic of page %q; want an error, and the page's URL", err, page)
	}
}
