package picker

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	upstreamSeconds = []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8,
		10, 15, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
	upstreamTokens = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32778, 65536,
		131072, 262144, 524288, 1048576}
	upstreamSizes = prometheus.ExponentialBuckets(64, 2, 25)
	upstreamPicks = []float64{0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1}
	upstreamWaits = []float64{0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60}
	upstreamITL   = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2}
	upstreamTPOT  = []float64{0.0005, 0.00205, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.125,
		0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 2}

	upstreamPerToken = []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0}
)

const upstreamPrefix = "llm_d_epp_"

// Series describes a series of llm-d's EPP, for documentation.
type Series struct {
	Name, Former string // Former is "" if the series has no former name
	Type         string
	Labels       []string
	Help         string
}

type upstreamSeries struct {
	all    []prometheus.Collector
	series []Series
}

func (u *upstreamSeries) add(kind, name, help string, labels []string, former string, keep []int) (
	own prometheus.Opts, old *prometheus.Opts, oldLabels []string,
) {
	u.series = append(u.series, Series{upstreamPrefix + name, former, kind, labels, help})
	own = prometheus.Opts{Name: upstreamPrefix + name, Help: help + " (llm-d's name)."}
	if former == "" {
		return own, nil, nil
	}
	for _, i := range keep {
		oldLabels = append(oldLabels, strings.Replace(labels[i], "endpoint_name", "pod_name", 1))
	}
	return own, &prometheus.Opts{Name: former, Help: help + " (the former name of " + own.Name + ")."}, oldLabels
}

func kept(values []string, keep []int) []string {
	out := make([]string, len(keep))
	for k, i := range keep {
		out[k] = values[i]
	}
	return out
}

type counters struct {
	now, former *prometheus.CounterVec
	keep        []int
}

func (u *upstreamSeries) counter(name, help string, labels []string, former string, keep ...int) counters {
	own, old, oldLabels := u.add("counter", name, help, labels, former, keep)
	c := counters{now: prometheus.NewCounterVec(prometheus.CounterOpts(own), labels), keep: keep}
	u.all = append(u.all, c.now)
	if old != nil {
		c.former = prometheus.NewCounterVec(prometheus.CounterOpts(*old), oldLabels)
		u.all = append(u.all, c.former)
	}
	return c
}

func (c *counters) inc(values ...string) {
	c.now.WithLabelValues(values...).Inc()
	if c.former != nil {
		c.former.WithLabelValues(kept(values, c.keep)...).Inc()
	}
}

type gauges struct {
	now, former *prometheus.GaugeVec
	keep        []int
}

func (u *upstreamSeries) gauge(name, help string, labels []string, former string, keep ...int) gauges {
	own, old, oldLabels := u.add("gauge", name, help, labels, former, keep)
	g := gauges{now: prometheus.NewGaugeVec(prometheus.GaugeOpts(own), labels), keep: keep}
	u.all = append(u.all, g.now)
	if old != nil {
		g.former = prometheus.NewGaugeVec(prometheus.GaugeOpts(*old), oldLabels)
		u.all = append(u.all, g.former)
	}
	return g
}

func (g *gauges) add(n float64, values ...string) {
	g.now.WithLabelValues(values...).Add(n)
	if g.former != nil {
		g.former.WithLabelValues(kept(values, g.keep)...).Add(n)
	}
}

type histograms struct {
	now, former *prometheus.HistogramVec
	keep        []int
}

func (u *upstreamSeries) histogram(
	name, help string, buckets []float64, labels []string, former string, keep ...int,
) histograms {
	own, old, oldLabels := u.add("histogram", name, help, labels, former, keep)
	vec := func(o prometheus.Opts, labels []string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: o.Name, Help: o.Help, Buckets: buckets}, labels)
		if len(labels) == 0 {
			v.WithLabelValues() // shows the series before the first observation
		}
		u.all = append(u.all, v)
		return v
	}
	h := histograms{now: vec(own, labels), keep: keep}
	if old != nil {
		h.former = vec(*old, oldLabels)
	}
	return h
}

func (h *histograms) observe(v float64, values ...string) {
	h.now.WithLabelValues(values...).Observe(v)
	if h.former != nil {
		h.former.WithLabelValues(kept(values, h.keep)...).Observe(v)
	}
}

// UpstreamSeries lists the series of llm-d's EPP that penstock picker has.
func UpstreamSeries() []Series {
	u, _ := newUpstreamMetrics(nil, nil) // no error without a registry
	return append(u.series, gaugeSeries...)
}
