package picker

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/endpoint"
)

// Rate is a model server's prefill rate, in tokens a second.
type Rate struct {
	Pool   objectid.Target     `json:"pool"`
	Server string              `json:"server"`
	Rate   float64             `json:"rate"`
	From   endpoint.RateSource `json:"from"`
	// Inferred is the rate inferred from the times to first tokens, in tokens a second. It is set
	// only if Rate is a reported rate; 0 means unknown.
	Inferred float64 `json:"inferred,omitempty"`
}

// Rates returns the known rates.
func (p *Picker) Rates() (all []Rate) {
	at := endpoint.At(time.Now())
	var s endpoint.State
	for _, pool := range p.pools.now.Load().byName {
		for i := range pool.snapshot.Endpoints {
			e := &pool.snapshot.Endpoints[i]
			if e.ReadState(&s, at); s.Rate > 0 {
				all = append(all,
					Rate{Pool: pool.ID, Server: e.Text, Rate: s.Rate, From: s.RateFrom, Inferred: s.Inferred})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Rate) int { return a.Pool.Compare(b.Pool) })
	return all
}

var rateDesc = prometheus.NewDesc("penstock_picker_prefill_tokens_per_second",
	"Tokens of prompts that a server reads in a second, as requests are counted, by source: reported (the "+
		"server's own "+
		"series), which outranks inferred (first tokens). Unknown rates have no series.",
	[]string{"pool", "endpoint", "source"}, nil)

func collectRate(ch chan<- prometheus.Metric, pool, server string, s *endpoint.State) {
	gauge := func(rate float64, from endpoint.RateSource) {
		if rate > 0 {
			ch <- prometheus.MustNewConstMetric(rateDesc, prometheus.GaugeValue, rate, pool, server, string(from))
		}
	}
	gauge(s.Rate, s.RateFrom)
	gauge(s.Inferred, endpoint.Inferred)
}
