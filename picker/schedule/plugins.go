package schedule

import (
	"math"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/endpoint"
)

// Plugins is the name of the strategy that Options.Profile configures.
const Plugins = "plugins"

var pluginScorers = map[string]func(endpointpicker.Instance) pluginScorer{
	endpointpicker.QueueScorer:           func(endpointpicker.Instance) pluginScorer { return fewer{waiting} },
	endpointpicker.RunningRequestsScorer: func(endpointpicker.Instance) pluginScorer { return fewer{running} },
	endpointpicker.KVCacheScorer:         func(endpointpicker.Instance) pluginScorer { return kvCache{} },
	endpointpicker.LoadAwareScorer: func(p endpointpicker.Instance) pluginScorer {
		return loadAware{p.Parameters.(*endpointpicker.LoadAware)}
	},
	endpointpicker.ActiveRequestScorer: func(p endpointpicker.Instance) pluginScorer {
		return activeRequest{p.Parameters.(*endpointpicker.ActiveRequest)}
	},
	endpointpicker.TokenLoadScorer: func(p endpointpicker.Instance) pluginScorer {
		return tokenLoad{p.Parameters.(*endpointpicker.TokenLoad)}
	},
	endpointpicker.PrefixCacheScorer: func(p endpointpicker.Instance) pluginScorer {
		return prefixCache{p.Parameters.(*endpointpicker.PrefixCache)}
	},
	endpointpicker.LoRAAffinityScorer:    func(endpointpicker.Instance) pluginScorer { return loraAffinity{} },
	endpointpicker.ExternalScorer:        func(endpointpicker.Instance) pluginScorer { return external{} },
	endpointpicker.SessionAffinityScorer: func(endpointpicker.Instance) pluginScorer { return sessionAffinity{} },
	endpointpicker.NoHitLRUScorer:        newNoHitLRU,
	endpointpicker.MediaCacheScorer:      newMediaCache,
	endpointpicker.LatencyScorer: func(p endpointpicker.Instance) pluginScorer {
		return latency{p.Parameters.(*endpointpicker.Latency)}
	},
	endpointpicker.ContextLengthAware: func(p endpointpicker.Instance) pluginScorer {
		return contextLength{p.Parameters.(*endpointpicker.ContextLength)}
	},
	endpointpicker.HeaderLabelScorer: func(p endpointpicker.Instance) pluginScorer {
		return headerLabel{p.Parameters.(*endpointpicker.HeaderLabel)}
	},
}

// pluginFilters decide about each endpoint alone; pluginNarrowers see all candidates.
var pluginFilters = map[string]func(endpointpicker.Instance) func(*endpoint.Endpoint, *endpoint.State) bool{
	endpointpicker.LabelSelectorFilter: labelSelector,
	endpointpicker.DecodeFilter:        role,
	endpointpicker.PrefillFilter:       role,
	endpointpicker.EncodeFilter:        role,
	endpointpicker.ByLabelFilter:       byLabel,
	endpointpicker.UtilizationFilter:   withinLimits,
	endpointpicker.ConcurrencyDetector: concurrency,
}

var choices = map[string]choice{
	endpointpicker.MaxScorePicker:       maxScore,
	endpointpicker.WeightedRandomPicker: weightedRandom,
	endpointpicker.RandomPicker:         uniform,
	endpointpicker.PowerOfTwoPicker:     powerOfTwo,
}

// pluginScorer scores candidates with the formulas of llm-d's router.
type pluginScorer interface {
	// add adds each candidate's score (0 to 1), times weight, to its Score.
	add(v view, weight float64)
}

type choice func(c []Candidate, n int, random func() uint64) []Candidate

type plugins struct {
	narrowers []named
	scorers   []weighted
	choice    choice
	kind      string
	random    func() uint64
	admission endpointpicker.Admission
	foresees  *load // predicts latency; nil if no plugin needs it
}

type weighted struct {
	pluginScorer
	name   string
	weight float64
}

func newPlugins(o Options) *Strategy {
	kind := o.Profile.Picker
	p := &plugins{choice: choices[kind], kind: kind, random: o.Random, admission: o.Profile.Admission}
	if o.Profile.Latency {
		p.foresees = &load{}
	}
	outside := 0
	for _, in := range o.Profile.Scorers {
		if in.Type == endpointpicker.ExternalScorer {
			p.scorers = append(p.scorers, weighted{external{outside}, in.Name, in.Weight})
			outside++
			continue
		}
		p.scorers = append(p.scorers, weighted{pluginScorers[in.Type](in), in.Name, in.Weight})
	}
	s := &Strategy{chooser: p, trials: true}
	for _, scorer := range p.scorers {
		if n, ok := scorer.pluginScorer.(noter); ok {
			s.noters = append(s.noters, n)
		}
	}
	for _, in := range o.Profile.Filters {
		limits, _ := in.Parameters.(*endpointpicker.UtilizationLimits)
		switch narrows := pluginNarrowers[in.Type]; {
		case narrows != nil:
			p.narrowers = append(p.narrowers, named{narrows(in), in.Name})
		case limits != nil && limits.FallbackOnEmpty:
			p.narrowers = append(p.narrowers, named{preferred{limits}, in.Name})
		default:
			s.filters = append(s.filters, filter{in.Name, pluginFilters[in.Type](in)})
		}
	}
	if o.Profile.Prompts {
		s.prefixes = o.Prefixes
	}
	return s
}

func (p *plugins) choose(r *Request, _ []endpoint.Endpoint, c []Candidate, states []endpoint.State, n int) []Candidate {
	v := p.see(r, c, states)
	if p.denies(v) {
		return nil
	}
	kept := p.narrow(v, func(uint32, string) {})
	n = min(n, len(c))
	p.rank(v, c[:kept], min(n, kept))
	if n > kept {
		p.rank(v, c[kept:], n-kept)
	}
	return c[:n]
}

func (p *plugins) rank(v view, c []Candidate, n int) {
	v.c = c
	for i := range p.scorers {
		p.scorers[i].add(v, p.scorers[i].weight)
	}
	p.choice(c, n, p.random)
}

func (p *plugins) see(r *Request, c []Candidate, states []endpoint.State) view {
	v := see(r, c, states)
	warm := false
	for i := range c {
		k, state := &c[i], &states[c[i].lot]
		warm = warm || k.Cached > 0
		if p.foresees != nil {
			p.foresees.of(r, state, k)
			k.predict(r, state)
			continue
		}
		k.uncached = float64(max(r.Tokens-k.Cached, 0))
		if k.Rate = state.Rate; k.Rate == 0 {
			k.Rate = defaultRate
		}
	}
	for i := range c {
		c[i].warm = warm
	}
	return v
}

func (p *plugins) explain(r *Request, _ []endpoint.Endpoint, c []Candidate, states []endpoint.State,
	verdicts []Verdict) {
	v := p.see(r, c, states)
	kept := p.narrow(v, func(lot uint32, name string) { verdicts[lot].Out = name })
	v.c, c = c[:kept], c[:kept]
	for i := range c {
		verdicts[c[i].lot].Scores = make([]Score, 0, len(p.scorers))
	}
	for _, s := range p.scorers {
		for i := range c {
			c[i].Score = 0
		}
		s.add(v, 1)
		for i := range c {
			to := &verdicts[c[i].lot]
			to.Score += s.weight * c[i].Score
			to.Scores = append(to.Scores, Score{Plugin: s.name, Score: c[i].Score, Weight: s.weight})
		}
	}
}

type view struct {
	r      *Request
	c      []Candidate
	states []endpoint.State // by Candidate.lot
	// paged means that at least half of the candidates have fresh metrics. A candidate with stale
	// metrics then gets the worst of the fresh values. If paged is false, scorers ignore metrics.
	paged bool
}

func see(r *Request, c []Candidate, states []endpoint.State) view {
	fresh := 0
	for i := range c {
		if states[c[i].lot].Fresh {
			fresh++
		}
	}
	return view{r: r, c: c, states: states, paged: fresh > 0 && 2*fresh >= len(c)}
}

func (v *view) state(i int) *endpoint.State { return &v.states[v.c[i].lot] }

func (v *view) bounds(read func(*endpoint.State) float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for i := range v.c {
		if s := v.state(i); s.Fresh {
			value := read(s)
			low, high = min(low, value), max(high, value)
		}
	}
	return low, high
}

func (v *view) value(i int, read func(*endpoint.State) float64, worst float64) float64 {
	if s := v.state(i); s.Fresh {
		return read(s)
	}
	return worst
}

func within(score float64) float64 { return min(max(score, 0), 1) }
