package picker

import (
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

type roles struct{ prefill, encode *schedule.Strategy }

func (pool *pool) addStages(o schedule.Options, old *pool) (err error) {
	d := pool.disagg()
	if d == nil {
		return nil
	}
	if old != nil && old.options.Equal(&o) {
		pool.roles = old.roles
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
	pool.roles = roles{stage(d.Prefill), stage(d.Encode)}
	return err
}

func (pool *pool) disagg() *endpointpicker.Disagg {
	p := pool.profile()
	if p == nil {
		return nil
	}
	return p.Disagg
}

func (pool *pool) dynamo() *endpointpicker.Dynamo {
	p := pool.profile()
	if p == nil {
		return nil
	}
	return p.Dynamo
}

type further struct {
	prefill *endpoint.Endpoint // nil if the main server reads the prompt
	encode  []*endpoint.Endpoint
	lacks   []string
	leases  []*endpoint.Lease
}

const (
	stagePrefill = "prefill"
	stageEncode  = "encode"
)

const maxEncoders = 8

func (f *further) release() {
	for _, l := range f.leases {
		l.Release()
		l.Done()
	}
	*f = further{}
}

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

// addFurther chooses servers that encode images and read the prompt for the main server, and opens
// their leases. If no such server is free, the main server does the work.
func (k *pick) addFurther(work *endpoint.Work) {
	d := k.pool.disagg()
	if d == nil || len(k.ranked) == 0 {
		return
	}
	first := &k.ranked[0]
	cached := first.Cached
	if s := d.Encode; s != nil && s.Decider.Wants(k.query.Tokens, cached, k.request.Facts.Media) {
		if k.further.encode = k.rankStage(k.pool.roles.encode, min(s.MaxEndpoints, maxEncoders),
			false); len(k.further.encode) == 0 {
			k.further.lacks = append(k.further.lacks, stageEncode)
		}
	}
	if s := d.Prefill; s != nil && s.Decider.Wants(k.query.Tokens, cached, k.request.Facts.Media) {
		servers := k.rankStage(k.pool.roles.prefill, 1, true)
		switch {
		case len(servers) == 0:
			k.further.lacks = append(k.further.lacks, stagePrefill)
		case servers[0] != first.Endpoint: // otherwise the main server also reads the prompt
			k.further.prefill = servers[0]
			// The other server reads the prompt. So the time to the first byte does not measure the
			// main server.
			work.Tokens, work.Measure, work.Features = 0, false, endpoint.Features{}
		}
	}
}

const stageAttempts = 3

func (k *pick) rankStage(s *schedule.Strategy, n int, prompt bool) (servers []*endpoint.Endpoint) {
	for range stageAttempts {
		ranked := s.Rank(&k.query, k.at, k.endpoints, k.allowed, n, &k.others)
		if len(ranked) == 0 {
			return nil
		}
		servers = servers[:0]
		for i := range ranked {
			e := ranked[i].Endpoint
			switch {
			case prompt && e == k.ranked[0].Endpoint, k.picker.leases.Bounded(k.holder.Gateway):
				servers = append(servers, e)
				continue
			}
			work := endpoint.Work{}
			if prompt {
				work = ranked[i].Work(&k.query)
				work.Trial, work.Features = false, endpoint.Features{}
			}
			lease := k.picker.leases.Open(e, k.holder, work, int64(k.pool.Full.InFlight), k.at)
			if lease == nil {
				continue
			}
			k.further.leases, servers = append(k.further.leases, lease), append(servers, e)
		}
		if len(servers) > 0 {
			return servers
		}
	}
	return nil
}

func (k *pick) front() *endpoint.Endpoint {
	d := k.pool.disagg()
	if d == nil || d.PrimaryPort == 0 {
		return nil
	}
	list := k.endpoints
	addr := netip.AddrPortFrom(k.ranked[0].Endpoint.Addr.Addr(), d.PrimaryPort)
	i, ok := slices.BinarySearchFunc(list, addr, func(e endpoint.Endpoint, a netip.AddrPort) int {
		return e.Addr.Compare(a)
	})
	if !ok {
		return nil
	}
	return &list[i]
}

func (k *pick) nameFurther(a *extproc.Answer) {
	if len(k.ranked) == 0 {
		return
	}
	pool, to := k.pool, k.ranked[0].Endpoint
	if k.staged = pool.disagg() != nil; k.staged {
		k.picker.metrics.stages.WithLabelValues(pool.Name, k.further.decision()).Inc()
		for _, stage := range k.further.lacks {
			k.picker.metrics.lacking.WithLabelValues(pool.Name, stage).Inc()
		}
	}
	if p := pool.dynamo(); p != nil {
		if a.Headers = pool.dynamoHeaders(p, to, k.further.prefill); len(a.Headers) > 0 {
			k.only(a, to)
		}
	}
	set := func(name, value string) {
		if value != "" {
			a.Headers = append(a.Headers, extproc.Header{Name: name, Value: value})
		}
	}
	set(endpointpicker.HeaderPrefill, k.further.text(stagePrefill))
	set(endpointpicker.HeaderEncode, k.further.text(stageEncode))
	if front := k.front(); front != nil {
		set(endpointpicker.HeaderDataParallel, to.Text)
		k.only(a, front)
		if k.lease != nil {
			k.lease.Behind(front.Load())
		}
	}
}

// only reduces an answer to one endpoint and the spill targets: the answer's headers are correct
// only for this endpoint.
func (k *pick) only(a *extproc.Answer, to *endpoint.Endpoint) {
	one := listed(append([]string{to.Text}, k.spillTo...), retries(k.request))
	a.Endpoints, a.MaxRetries = one.Endpoints, one.MaxRetries
}

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
		stage.Endpoints, stage.Verdicts = texts.String(), pool.describe(s, r, now, nil, nil)
		out = append(out, stage)
	}
	explain(stagePrefill, pool.roles.prefill, 1)
	if d.Encode != nil {
		explain(stageEncode, pool.roles.encode, min(d.Encode.MaxEndpoints, maxEncoders))
	}
	return out
}

func newStageMetrics() (stages, lacking *prometheus.CounterVec) {
	stages = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_picker_stages_total",
		Help: "Picks of pools whose profile handler separates stages, by the stages of the request: decode-only (one " +
			"server does all), prefill-decode, encode-decode, or encode-prefill-decode."}, []string{"pool", "decision"})
	lacking = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_picker_missing_stages_total",
		Help: "Requests without a stage that their decider asked for, because no server of it takes requests: " +
			"prefill or encode. The server of decode does its work."}, []string{"pool", "stage"})
	return stages, lacking
}
