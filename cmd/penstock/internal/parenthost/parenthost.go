package parenthost

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

const (
	maxParents = 1024
	// repeated is how many 404s within window are a finding.
	repeated = 5
	window   = time.Minute
	// calm is how long a gateway must not have answered 404 until another answer of it resolves the
	// finding; without one, forgetAfter.
	calm        = 10 * time.Second
	forgetAfter = 10 * time.Minute
	// every is how often the counts are judged.
	every = time.Second
)

// Reports receives the findings. *peers.Answers implements it.
type Reports interface {
	Report(cluster string, is report.Report)
	Resolve(cluster string)
}

// Config of a Counter.
type Config struct {
	Objects func() store.Reader // as they are now
	Reports Reports
	// Allowed reports whether the proxies of a Gateway have the clusters of a pool.
	Allowed func(gateway string, pool objectid.Target) bool
}

// Counter counts answers of the gateways of other clusters.
type Counter struct {
	cfg  Config
	wake chan struct{} // has one element when there is something to judge

	mu      sync.Mutex
	parents map[model.ClusterID]*parent
}

// parent has the answers of the gateways of an exporting cluster, in the current half of the window
// and the one before.
type parent struct {
	turn           time.Time // when the current half began
	missing, other [2]int    // with 404, and other ones
	last           time.Time // the last 404
	otherwise      bool      // another answer came after it
	host           string    // of the first 404
	at             netip.AddrPort
	reported       inference.ClientHost // zero: there is no finding
}

// New makes a Counter.
func New(c Config) *Counter {
	return &Counter{cfg: c, wake: make(chan struct{}, 1), parents: map[model.ClusterID]*parent{}}
}

// Count takes over what became of a request (picker.Config.Attempts).
func (c *Counter) Count(a accesslog.Attempt) {
	id, ok := model.ParseClusterID(a.Cluster)
	if !ok || !a.Reached || id.Kind != model.ParentKind || a.Gateway != "" && !c.cfg.Allowed(a.Gateway, id.Pool()) {
		return
	}
	id = id.As(model.Plain)
	missing, now := a.Status == 404, time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.parents[id]
	if p == nil {
		if !missing || len(c.parents) >= maxParents {
			return
		}
		p = &parent{turn: now, host: a.Host, at: a.At}
		c.parents[id] = p
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	p.proceed(now)
	if missing {
		p.missing[0]++
		p.last, p.otherwise = now, false
	} else {
		p.other[0]++
		p.otherwise = true
	}
}

// proceed begins another half of the window when it is time.
func (p *parent) proceed(now time.Time) {
	switch halves := now.Sub(p.turn) / (window / 2); {
	case halves >= 2:
		p.turn, p.missing, p.other = now, [2]int{}, [2]int{}
	case halves == 1:
		p.turn = p.turn.Add(window / 2)
		p.missing, p.other = [2]int{0, p.missing[0]}, [2]int{0, p.other[0]}
	}
}

// found reports whether the answers are a finding.
func (p *parent) found(now time.Time) bool {
	missing, others := p.missing[0]+p.missing[1], p.other[0]+p.other[1]
	if p.reported == (inference.ClientHost{}) {
		return missing >= repeated && missing >= others
	}
	quiet := now.Sub(p.last)
	return quiet < forgetAfter && (quiet < calm || !p.otherwise) && 2*missing >= others
}

// Run judges what was counted until ctx ends.
func (c *Counter) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.wake:
		}
		for again := true; again; again = c.judge(time.Now()) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(every):
			}
		}
	}
}

// judge reports findings and takes them back. It returns false if nothing is counted any more.
func (c *Counter) judge(now time.Time) bool {
	objects, imports := c.cfg.Objects(), map[string]*inference.ClientHosts{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, p := range c.parents {
		p.proceed(now)
		var is inference.ClientHost
		found := p.found(now)
		if found {
			of := imports[id.Key()]
			if of == nil {
				of = inference.NewClientHosts(objects, id.Key())
				imports[id.Key()] = of
			}
			if is, found = of.At(id.Member, p.at); !found {
				p.missing = [2]int{} // there is no hostname to set
			}
		}
		switch {
		case !found && p.reported != is:
			c.cfg.Reports.Resolve(id.String())
			delete(c.parents, id) // what was counted counts no more
		case !found && p.missing == [2]int{}:
			delete(c.parents, id)
		case is != p.reported:
			c.cfg.Reports.Report(id.String(), p.report(id, is))
		}
		p.reported = is
	}
	return len(c.parents) > 0
}

// report is what is shown of an exporting cluster.
func (p *parent) report(id model.ClusterID, is inference.ClientHost) report.Report {
	owner := report.Ref{Group: store.InferencePoolImports.Group(), Kind: store.InferencePoolImports.Kind(),
		Namespace: id.Namespace, Name: id.Name}
	gateway := is.Gateway
	if p.at.IsValid() {
		gateway = fmt.Sprintf("%s at %s", gateway, p.at)
	}
	if is.Gateway == "" {
		gateway = "its gateway" + gateway
	} else {
		gateway = "gateway " + gateway
	}
	return report.Report{Owner: owner, Findings: []report.Finding{{
		Severity: report.Warning, Owner: owner, Field: is.Field,
		Problem: fmt.Sprintf(
			"cluster %s: %s answers 404 repeatedly, at first to a request for host %.100q: it gets the host that the "+
				"client asks for, and may have no route for it", id.Member, gateway, p.host),
		Fix: "set parents[].hostname to the host of its route, or add the host to the route at that gateway",
	}}}
}
