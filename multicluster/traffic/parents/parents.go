package parents

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
	repeated   = 5
	window     = time.Minute
	// calm is how long after the last 404 another status resolves the finding. Without one, it is
	// resolved after forgetAfter.
	calm        = 10 * time.Second
	forgetAfter = 10 * time.Minute
	every       = time.Second
)

// Reports receives the findings. *peers.Answers implements it.
type Reports interface {
	Report(cluster string, r report.Report)
	Resolve(cluster string)
}

// Config configures a Counter.
type Config struct {
	Objects func() store.Reader
	Reports Reports
	// Allowed reports whether Penstock has configured the Envoys of a Gateway with Envoy clusters
	// for a pool.
	Allowed func(gateway string, pool objectid.Target) bool
}

// Counter counts the responses of other clusters' gateways, and reports gateways without a route.
type Counter struct {
	cfg  Config
	wake chan struct{}

	mu      sync.Mutex
	parents map[model.ClusterID]*parent
}

// parent counts responses in each half of the window.
type parent struct {
	turn           time.Time
	missing, other [2]int
	last           time.Time
	otherwise      bool
	host           string
	at             netip.AddrPort
	reported       inference.ClientHost
}

// New makes a Counter.
func New(c Config) *Counter {
	return &Counter{cfg: c, wake: make(chan struct{}, 1), parents: map[model.ClusterID]*parent{}}
}

// Count counts a finished request, which an Envoy's access log reports (picker.Config.Attempts).
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

func (p *parent) proceed(now time.Time) {
	switch halves := now.Sub(p.turn) / (window / 2); {
	case halves >= 2:
		p.turn, p.missing, p.other = now, [2]int{}, [2]int{}
	case halves == 1:
		p.turn = p.turn.Add(window / 2)
		p.missing, p.other = [2]int{0, p.missing[0]}, [2]int{0, p.other[0]}
	}
}

func (p *parent) found(now time.Time) bool {
	missing, others := p.missing[0]+p.missing[1], p.other[0]+p.other[1]
	if p.reported == (inference.ClientHost{}) {
		return missing >= repeated && missing >= others
	}
	quiet := now.Sub(p.last)
	return quiet < forgetAfter && (quiet < calm || !p.otherwise) && 2*missing >= others
}

// Run reports and resolves findings until ctx ends.
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

func (c *Counter) judge(now time.Time) bool {
	objects, imports := c.cfg.Objects(), map[string]*inference.ClientHosts{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, p := range c.parents {
		p.proceed(now)
		var host inference.ClientHost
		found := p.found(now)
		if found {
			if imports[id.Key()] == nil {
				imports[id.Key()] = inference.NewClientHosts(objects, id.Key())
			}
			if host, found = imports[id.Key()].At(id.Member, p.at); !found {
				p.missing = [2]int{} // a parents[].hostname would change nothing
			}
		}
		switch {
		case !found && p.reported != host:
			c.cfg.Reports.Resolve(id.String())
			delete(c.parents, id)
		case !found && p.missing == [2]int{}:
			delete(c.parents, id)
		case host != p.reported:
			c.cfg.Reports.Report(id.String(), p.report(id, host))
		}
		p.reported = host
	}
	return len(c.parents) > 0
}

func (p *parent) report(id model.ClusterID, host inference.ClientHost) report.Report {
	owner := store.RefOf(store.InferencePoolImports, id.Key())
	gateway := "its gateway"
	if host.Gateway != "" {
		gateway = "gateway " + host.Gateway
	}
	if p.at.IsValid() {
		gateway = fmt.Sprintf("%s at %s", gateway, p.at)
	}
	return report.Report{Owner: owner, Findings: []report.Finding{{
		Severity: report.Warning, Owner: owner, Field: host.Field,
		Problem: fmt.Sprintf("cluster %s: %s answers 404 repeatedly, at first to a request for host %.100q: it "+
			"receives the host that the client requests, and may have no route for it", id.Member, gateway, p.host),
		Fix: "set parents[].hostname to the host of its route, or add the host to the route at that gateway",
	}}}
}
