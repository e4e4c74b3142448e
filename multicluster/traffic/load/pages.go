package load

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
	maxPage      = 1 << 20 // bounds a page, in bytes
	pagesAtOnce  = 8
)

// readyServers are metrics of the pickers of llm-d and of the Gateway API inference extension.
var readyServers = []string{"llm_d_epp_ready_endpoints{", "inference_pool_ready_pods{"}

// Page is the metrics page of the picker of an import's exporting cluster.
type Page struct {
	Import objectid.Pool
	Member string
	// Pool is the pool's name in the page's metric labels.
	Pool      string
	Addresses []netip.Addr // addresses of replicas; the first that responds is used
	Port      uint16       // 0: the picker has no page
	// TLS configures the connection; nil: cleartext.
	TLS *dial.TLS
	// Authorization is a request header; "": none. It must only be set with a TLS that verifies the
	// server.
	Authorization string
}

type pageKey struct {
	pool   objectid.Pool
	member string
}

type page struct {
	Page
	client  *http.Client
	servers int // 0: unknown
	failure string
}

// noServers stands for a page that shows 0. 0 stands for a page without a number.
const noServers = -1

// SetPage sets the metrics page of the picker of an import's cluster. RunPages reads the page while
// LeastLoad chooses among the import's clusters. Port 0 removes the page.
func (l *Loads) SetPage(p Page) {
	l.pagesMu.Lock()
	defer l.pagesMu.Unlock()
	key := pageKey{p.Import, p.Member}
	old := l.pages[key]
	if old != nil && reflect.DeepEqual(old.Page, p) {
		return
	}
	next := &page{Page: p}
	if old != nil {
		next.servers, next.failure = old.servers, old.failure
		if old.client != nil {
			old.client.CloseIdleConnections()
		}
	}
	if l.pages[key] = next; p.Port == 0 {
		delete(l.pages, key)
	}
}

func (l *Loads) servers(pool objectid.Pool, member string) int {
	l.pagesMu.Lock()
	defer l.pagesMu.Unlock()
	if p := l.pages[pageKey{pool, member}]; p != nil {
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
	_ = group.Wait()
	l.measure()
}

func (l *Loads) forgetPages(read map[pageKey]bool) {
	var resolved []pageKey
	l.pagesMu.Lock()
	for key, p := range l.pages {
		if read[key] {
			continue
		}
		if p.failure != "" {
			resolved = append(resolved, key)
		}
		p.servers, p.failure = 0, ""
	}
	l.pagesMu.Unlock()
	for _, key := range resolved {
		if l.cfg.OnPage != nil {
			l.cfg.OnPage(key.pool, key.member, "")
		}
	}
}

func (l *Loads) pageRead(key pageKey, p *page, servers int, err error) {
	failure := ""
	// Without TLS, the failure is not reported, because the page may be closed to other clusters on
	// purpose.
	if err != nil && p.TLS != nil {
		failure = err.Error()
	}
	l.pagesMu.Lock()
	changed := l.pages[key] == p && failure != p.failure
	p.servers, p.failure = servers, failure
	l.pagesMu.Unlock()
	if changed && l.cfg.OnPage != nil {
		l.cfg.OnPage(key.pool, key.member, failure)
	}
}

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

// read reads the page at the first address that responds. The error quotes no text of the server,
// which could repeat the credential.
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
		if at, ok := errors.AsType[*url.Error](err); ok {
			err = at.Err
		}
		if strings.Contains(err.Error(), "malformed") {
			return 0, errors.New("its response is not HTTP")
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

// parse returns how many servers take requests, from the series with the pool's name or else from
// the only series; noServers if its value is 0, and 0 without a series.
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
		fields := strings.Fields(text[end+1:])
		if end < 0 || !labelled || !ended || len(fields) == 0 {
			continue
		}
		n, err := strconv.ParseFloat(fields[0], 64)
		if err != nil || n != 0 && (n < 1 || n > 1<<16) || math.IsNaN(n) {
			continue
		}
		// The larger value counts, because a picker may no longer set one of its metrics.
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
