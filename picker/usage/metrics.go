package usage

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

type series struct {
	mu     sync.Mutex
	owners map[string]*Counts
}

// maxSeries bounds the owners in metrics; further owners count as Other.
const maxSeries = 200

func (s *series) add(owner string, c Counts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owners == nil {
		s.owners = map[string]*Counts{}
	}
	at := s.owners[owner]
	if at == nil && len(s.owners) >= maxSeries {
		owner = Other
		at = s.owners[owner]
	}
	if at == nil {
		at = &Counts{}
		s.owners[owner] = at
	}
	at.add(c)
}

var (
	requestsDesc = prometheus.NewDesc("penstock_usage_requests_total",
		"Requests of gated routes that ended, by the owner of their API key and outcome: served, failed, or denied "+
			"by the gate. Without a valid key, the owner is empty. At most 200 owners have names; further ones are "+
			"other.", []string{"owner", "outcome"}, nil)
	tokensDesc = prometheus.NewDesc("penstock_usage_tokens_total",
		"Tokens of these requests, by owner, as in penstock usage. Type input counts prompts, cached the part of "+
			"them that servers had in their caches, output responses.", []string{"owner", "type"}, nil)
	lateDesc = prometheus.NewDesc("penstock_usage_late_seconds",
		"How long the oldest counted request has waited to be written to the database of usage; 0 if none waits.",
		nil, nil)
)

// Describe implements prometheus.Collector.
func (k *Keeper) Describe(ch chan<- *prometheus.Desc) {
	ch <- requestsDesc
	ch <- tokensDesc
	ch <- lateDesc
}

// Collect implements prometheus.Collector.
func (k *Keeper) Collect(ch chan<- prometheus.Metric) {
	k.series.mu.Lock()
	all := make(map[string]Counts, len(k.series.owners))
	for owner, c := range k.series.owners {
		all[owner] = *c
	}
	k.series.mu.Unlock()
	count := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	for _, owner := range slices.Sorted(maps.Keys(all)) {
		c := all[owner]
		count(requestsDesc, c.Requests-c.Failed, owner, "served")
		count(requestsDesc, c.Failed, owner, "failed")
		count(requestsDesc, c.Denied, owner, "denied")
		count(tokensDesc, c.Input, owner, "input")
		count(tokensDesc, c.Cached, owner, "cached")
		count(tokensDesc, c.Output, owner, "output")
	}
	k.state.Lock()
	late := k.lateness()
	k.state.Unlock()
	ch <- prometheus.MustNewConstMetric(lateDesc, prometheus.GaugeValue, late.Seconds())
}
