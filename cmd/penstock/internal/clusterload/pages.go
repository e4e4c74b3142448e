package clusterload

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/extproc"
)

const (
	pageInterval = 5 * time.Second
	pageTimeout  = 2 * time.Second
	maxPage      = 1 << 20 // bytes of a page that are read
	pagesAtOnce  = 8
)

// readyServers are the series of a picker's page with the number of its servers that take requests:
// llm-d's and the inference extension's.
var readyServers = []string{"llm_d_epp_ready_endpoints{", "inference_pool_ready_pods{"}

// Page is the metrics page of the picker of an exporting cluster of an import.
type Page struct {
	Import objectid.Pool
	Member string
	// Pool is the pool's name there.
	Pool      string
	Addresses []netip.Addr // of equal pickers; the first that answers counts
	Port      uint16       // 0: it has no page
	// TLS is how the page is read; nil: in cleartext.
	TLS *dial.TLS
	// Authorization is the header of requests; "" for none. It needs a TLS that verifies.
	Authorization string
}

type pageKey struct {
	of     objectid.Pool
	member string
}

// page is one that may be read, and the way to it.
type page struct {
	Page
	client  *http.Client // nil before the first reading
	servers int          // 0: not known; or noServers
	failure string
}

// noServers is the number of servers of a page that shows that no server takes requests: none that
// it shows is not the same.
const noServers = -1

// SetPage notes where the page of a cluster's picker is. It is read while LeastLoad chooses among
// the clusters of the import.
func (l *Loads) SetPage(p Page) {
	l.pagesMu.Lock()
	defer l.pagesMu.Unlock()
	key := pageKey{p.Import, p.Member}
	old := l.pages[key]
	if old != nil && reflect.DeepEqual(old.Page, p) {
		return
	}
	next := &page{Page: p}
	if old != nil { // what was read stands until the next reading
		next.servers, next.failure = old.servers, old.failure
		if old.client != nil {
			old.client.CloseIdleConnections()
		}
	}
	if l.pages[key] = next; p.Port == 0 {
		delete(l.pages, key)
	}
}

// servers is how many servers of a cluster take requests, as the page of its picker shows; 0: not
// known; noServers: none does.
func (l *Loads) servers(of objectid.Pool, member string) int {
	l.pagesMu.Lock()
	defer l.pagesMu.Unlock()
	if p := l.pages[pageKey{of, member}]; p != nil {
		return p.servers
	}
	return 0
}

// RunPages reads pages until ctx ends.
func (l *Loads) RunPages(ctx context.Context) error {
	tick := time.NewTicker(pageInterval)
	defer tick.Stop()
	for {
		l.readPages(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// readPages reads the pages of the clusters that are chosen among by their load.
func (l *Loads) readPages(ctx context.Context) {
	keys := map[pageKey]bool{}
	l.mu.RLock()
	for _, c := range l.imports {
		for _, m := range c.list {
			if !c.latency && !m.Local {
				keys[pageKey{c.pool, m.Name}] = true
			}
		}
	}
	l.mu.RUnlock()
	l.forgetPages(keys)
	var group errgroup.Group
	group.SetLimit(pagesAtOnce)
	for key := range keys {
		l.pagesMu.Lock()
		p := l.pages[key]
		if p != nil && p.client == nil {
			p.client = p.newClient()
		}
		l.pagesMu.Unlock()
		if p == nil {
			continue
		}
		group.Go(func() error {
			servers, err := p.read(ctx)
			if ctx.Err() == nil {
				l.pageRead(key, p, servers, err)
			}
			return nil
		})
	}
	_ = group.Wait() // no reading returns an error
	l.measure()
}

// forgetPages takes back what was read of pages that are not read any more.
func (l *Loads) forgetPages(read map[pageKey]bool) {
	var resolved []pageKey
	l.pagesMu.Lock()
	for key, p := range l.pages {
		if !read[key] {
			if p.failure != "" {
				resolved = append(resolved, key)
			}
			p.servers, p.failure = 0, ""
		}
	}
	l.pagesMu.Unlock()
	for _, key := range resolved {
		if l.cfg.OnPage != nil {
			l.cfg.OnPage(key.of, key.member, "")
		}
	}
}

// pageRead takes what a page shows over.
func (l *Loads) pageRead(key pageKey, p *page, servers int, err error) {
	failure := ""
	if err != nil && p.TLS != nil { // one in cleartext may be closed to other clusters
		failure = err.Error()
	}
	l.pagesMu.Lock()
	changed := l.pages[key] == p && failure != p.failure
	p.servers, p.failure = servers, failure
	l.pagesMu.Unlock()
	if changed && l.cfg.OnPage != nil {
		l.cfg.OnPage(key.of, key.member, failure)
	}
}

// newClient returns one that connects to the picker alone: it asks no proxy, and follows no
// redirect.
func (p *page) newClient() *http.Client {
	t := &http.Transport{DialContext: (&net.Dialer{Timeout: pageTimeout}).DialContext, MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost: 1, IdleConnTimeout: 4 * pageInterval}
	if p.TLS != nil {
		config, err := p.TLS.Config()
		if err != nil {
			t.DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, err }
		}
		t.TLSClientConfig = config
	}
	return &http.Client{Transport: t, Timeout: pageTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// read reads the page at the first address that answers. The error has no text of the server, which
// could be the credential.
func (p *page) read(ctx context.Context) (servers int, err error) {
	err = errors.New("its picker has no address")
	for _, ip := range p.Addresses {
		if servers, err = p.readAt(ctx, ip); err == nil {
			return servers, nil
		}
	}
	return 0, err
}

func (p *page) readAt(ctx context.Context, ip netip.Addr) (int, error) {
	at := url.URL{Scheme: "http", Host: netip.AddrPortFrom(ip, p.Port).String(), Path: "/metrics"}
	if p.TLS != nil {
		at.Scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return 0, err
	}
	if p.TLS != nil && p.Authorization != "" {
		req.Header.Set("Authorization", p.Authorization)
	}
	if p.TLS != nil && p.TLS.ServerName != "" {
		req.Host = p.TLS.ServerName
	}
	resp, err := p.client.Do(req)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) {
			err = of.Err
		}
		if strings.Contains(err.Error(), "malformed") {
			return 0, errors.New("its answer is not HTTP")
		}
		return 0, errors.New(extproc.Reason(err))
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		return parse(io.LimitReader(resp.Body, maxPage), p.Pool), nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return 0, fmt.Errorf("it does not accept the credential (%d)", resp.StatusCode)
	}
	return 0, fmt.Errorf("it answers %d", resp.StatusCode)
}

// parse finds the number of servers that take requests on a page in Prometheus's text format: those
// of the series with a pool's name, or of the only one. 0: the page does not have it; noServers: it
// shows 0.
func parse(page io.Reader, pool string) int {
	found := map[string]int{}
	lines := bufio.NewScanner(page)
	for lines.Scan() {
		text := lines.Text()
		if !slices.ContainsFunc(readyServers, func(name string) bool { return strings.HasPrefix(text, name) }) {
			continue
		}
		end := strings.LastIndexByte(text, '}')
		_, name, labelled := strings.Cut(text, `name="`)
		name, _, ended := strings.Cut(name, `"`)
		fields := strings.Fields(text[end+1:]) // a value, and perhaps a time
		if end < 0 || !labelled || !ended || len(fields) == 0 {
			continue
		}
		n, err := strconv.ParseFloat(fields[0], 64)
		if err != nil || n != 0 && (n < 1 || n > 1<<16) || math.IsNaN(n) {
			continue
		}
		// of two series one may be out of use
		if shown := cmp.Or(int(n), noServers); found[name] == 0 || found[name] < shown {
			found[name] = shown
		}
	}
	if n, ok := found[pool]; ok || len(found) != 1 {
		return n
	}
	for _, n := range found {
		return n
	}
	return 0
}
