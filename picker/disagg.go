package picker

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/schedule"
)

// stages choose a pool's further servers; a nil one does not. See endpointpicker.Disagg.
type stages struct{ prefill, encode *schedule.Strategy }

// addStages makes the strategies of a pool's further servers.
func (pool *pool) addStages(o schedule.Options, old *pool) (err error) {
	d := pool.disagg()
	if d == nil {
		return nil
	}
	if old != nil && old.options.Equal(&o) {
		pool.stages = old.stages
		return nil
	}
	stage := func(s *endpointpicker.Stage) *schedule.Strategy {
		if s == nil || err != nil {
			return nil
		}
		o := o
		o.Profile = s.Profile
		var strategy *schedule.Strategy
		strategy, err = schedule.New(o)
		return strategy
	}
	pool.stages = stages{stage(d.Prefill), stage(d.Encode)}
	if err != nil {
		return fmt.Errorf("pool %s: %w", pool.Name, err)
	}
	return nil
}

// disagg returns how further servers take part in the pool's requests; nil if none do.
func (pool *pool) disagg() *endpointpicker.Disagg {
	if pool.Strategy != schedule.Plugins || pool.Plugins == nil {
		return nil
	}
	return pool.Plugins.Disagg
}

// dynamo returns how the pool's requests name workers of Dynamo; nil if they do not.
func (pool *pool) dynamo() *endpointpicker.Dynamo {
	if pool.Strategy != schedule.Plugins || pool.Plugins == nil {
		return nil
	}
	return pool.Plugins.Dynamo
}

// further are the servers of a request beside the one that it is sent to.
type further struct {
	prefill *endpoint.Endpoint // reads the prompt; nil: the one that the request is sent to
	encode  []*endpoint.Endpoint
	lacks   []string // stages that the request should have, and that no server is free for
	leases  []*endpoint.Lease
}

// stageNames are those of stages, as metrics and records have them.
const (
	stagePrefill = "prefill"
	stageEncode  = "encode"
)

// maxEncoders bounds the servers that encode a request's images.
const maxEncoders = 8

// release ends the leases at the servers, for another rank.
func (f *further) release() {
	for _, l := range f.leases {
		l.Release()
		l.Done()
	}
	*f = further{}
}

// text returns the addresses of the servers of a stage; "" without.
func (f *further) text(stage string) string {
	switch {
	case stage == stageEncode:
		texts := make([]string, 0, maxEncoders)
		for _, e := range f.encode {
			texts = append(texts, e.Text)
		}
		return strings.Join(texts, ",")
	case f.prefill != nil:
		return f.prefill.Text
	}
	return ""
}

// addFurther chooses the further servers of a request whose first server is ranked, and opens their leases. A stage that no server is free
// for is left out: the server that the request is sent to does all. work is what that one has to do.
func (c *candidates) addFurther(work *endpoint.Work) {
	d := c.pool.disagg()
	if d == nil || len(c.ranked) == 0 {
		return
	}
	first := &c.ranked[0]
	cached := first.Cached
	if s := d.Encode; s != nil && s.Decider.Wants(c.request.Tokens, cached, c.media) {
		if c.further.encode = c.rankStage(c.pool.stages.encode, min(s.MaxEndpoints, maxEncoders), false); len(c.further.encode) == 0 {
			c.further.lacks = append(c.further.lacks, stageEncode)
		}
	}
	if s := d.Prefill; s != nil && s.Decider.Wants(c.request.Tokens, cached, c.media) {
		servers := c.rankStage(c.pool.stages.prefill, 1, true)
		switch {
		case len(servers) == 0:
			c.further.lacks = append(c.further.lacks, stagePrefill)
		case servers[0] != first.Endpoint: // a server of both roles needs no one else
			c.further.prefill = servers[0]
			// The prompt is read elsewhere, and its time shows nothing about this server.
			work.Tokens, work.Measure, work.Features = 0, false, endpoint.Features{}
		}
	}
}

// stageAttempts is how often a stage is ranked if other picks take the last slots of its servers meanwhile.
const stageAttempts = 3

// rankStage returns up to n servers of a stage, and opens leases there. prompt means that they read the request's prompt.
func (c *candidates) rankStage(s *schedule.Strategy, n int, prompt bool) (servers []*endpoint.Endpoint) {
	for range stageAttempts {
		ranked := s.Rank(&c.request, c.at, c.pool.snapshot.Endpoints, c.allowed, n, c.stage)
		if len(ranked) == 0 {
			return nil
		}
		servers = servers[:0]
		for i := range ranked {
			e := ranked[i].Endpoint
			switch {
			case prompt && e == c.ranked[0].Endpoint, c.picker.leases.Bounded(c.holder.Gateway):
				servers = append(servers, e)
				continue
			}
			work := endpoint.Work{}
			if prompt {
				work = ranked[i].Work(&c.request)
				work.Trial, work.Features = false, endpoint.Features{}
			}
			lease := c.picker.leases.Open(e, c.holder, work, int64(c.pool.Full.InFlight), c.at)
			if lease == nil {
				continue
			}
			c.further.leases, servers = append(c.further.leases, lease), append(servers, e)
		}
		if len(servers) > 0 {
			return servers
		}
	}
	return nil
}

// front returns the endpoint that passes requests on to the one ranked first, by its data-parallel rank; nil if there is none.
func (pool *pool) front(c *candidates) *endpoint.Endpoint {
	d := pool.disagg()
	if d == nil || d.PrimaryPort == 0 || len(c.ranked) == 0 {
		return nil
	}
	list := pool.snapshot.Endpoints
	addr := netip.AddrPortFrom(c.ranked[0].Endpoint.Addr.Addr(), d.PrimaryPort)
	i, ok := slices.BinarySearchFunc(list, addr, func(e endpoint.Endpoint, a netip.AddrPort) int { return e.Addr.Compare(a) })
	if !ok {
		return nil
	}
	return &list[i]
}

// nameFurther has a pick's answer name the further servers of its request. spill and retries are those of the answer.
func (pool *pool) nameFurther(a *extproc.Answer, c *candidates, d *decision, spill []string, retries int) {
	if len(c.ranked) == 0 {
		return
	}
	to := c.ranked[0].Endpoint
	if pool.disagg() != nil {
		d.further, d.staged = c.further, true
		c.picker.metrics.stages.WithLabelValues(pool.Name, d.further.decision()).Inc()
		for _, stage := range d.further.lacks {
			c.picker.metrics.lacking.WithLabelValues(pool.Name, stage).Inc()
		}
	}
	if p := pool.dynamo(); p != nil {
		if a.Headers = pool.dynamoHeaders(p, to, d.further.prefill); len(a.Headers) > 0 {
			pool.only(a, to, spill, retries)
		}
	}
	set := func(name, value string) {
		if value != "" {
			a.Headers = append(a.Headers, extproc.Header{Name: name, Value: value})
		}
	}
	set(endpointpicker.HeaderPrefill, d.further.text(stagePrefill))
	set(endpointpicker.HeaderEncode, d.further.text(stageEncode))
	if front := pool.front(c); front != nil {
		set(endpointpicker.HeaderDataParallel, to.Text)
		pool.only(a, front, spill, retries)
		if c.lease != nil {
			c.lease.Behind(front.Load())
		}
	}
}

// only has an answer name one endpoint, and spill targets: a header names it too, and would be wrong at another one.
func (pool *pool) only(a *extproc.Answer, to *endpoint.Endpoint, spill []string, retries int) {
	one := listed(append([]string{to.Text}, spill...), retries)
	a.Endpoints, a.MaxRetries = one.Endpoints, one.MaxRetries
}

// decision describes which stages a request has, in llm-d's words.
func (f *further) decision() string {
	switch encode, prefill := len(f.encode) > 0, f.prefill != nil; {
	case encode && prefill:
		return "encode-prefill-decode"
	case encode:
		return "encode-decode"
	case prefill:
		return "prefill-decode"
	}
	return "decode-only"
}

// explainStages returns what the stages of a request would choose.
func (pool *pool) explainStages(r *schedule.Request, now time.Time) (out []Stage) {
	d := pool.disagg()
	if d == nil {
		return nil
	}
	explain := func(name string, s *schedule.Strategy, n int) {
		if s == nil {
			return
		}
		var scratch schedule.Scratch
		stage := Stage{Name: name}
		var texts extproc.List
		for _, c := range s.Preview(r, now, pool.snapshot.Endpoints, nil, n, &scratch) {
			texts = append(texts, c.Endpoint.Text)
		}
		stage.Endpoints, stage.Verdicts = texts.String(), pool.describe(s, r, now, nil)
		out = append(out, stage)
	}
	explain(stagePrefill, pool.stages.prefill, 1)
	if d.Encode != nil {
		explain(stageEncode, pool.stages.encode, min(d.Encode.MaxEndpoints, maxEncoders))
	}
	return out
}

func newStageMetrics() (stages, lacking *prometheus.CounterVec) {
	stages = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_picker_stages_total",
		Help: "Picks of pools whose profile handler separates stages, by the stages of the request: decode-only (one server does all), prefill-decode, encode-decode, or encode-prefill-decode."}, []string{"pool", "decision"})
	lacking = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_picker_missing_stages_total",
		Help: "Requests without a stage that their decider asked for, because no server of it takes requests: prefill or encode. The server of decode does its work."}, []string{"pool", "stage"})
	return stages, lacking
}
