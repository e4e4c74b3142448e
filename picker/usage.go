package picker

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
)

const (
	// Clients may send any model name, so at most maxModels names have series of their own. A name
	// gets its series with the first accepted request; others count as otherModel.
	maxModels    = 1000
	otherModel   = "other"
	maxModelName = 128 // in bytes; longer names count as otherModel
)

type usage struct {
	mu     sync.Mutex
	models map[modelKey]*modelUsage
	names  int
}

type modelKey struct{ pool, model string }

type modelUsage struct {
	served, failed uint64
	firstByte      time.Duration
	input, cached  uint64
	output         uint64
}

func (u *usage) ended(pool string, tag endpoint.Tag, e accesslog.Entry) {
	if tag.Model == "" {
		return
	}
	ok := e.Status > 0 && e.Status < 400 && e.Error == 0 && !e.Cut
	u.mu.Lock()
	defer u.mu.Unlock()
	m := u.find(modelKey{pool, tag.Model}, ok)
	if !ok {
		m.failed++
		return
	}
	m.served++
	m.firstByte += e.FirstByte
	m.output += uint64(max(e.OutputTokens, 0))
	m.input += uint64(max(tag.Tokens, 0))
	m.cached += uint64(max(min(tag.Cached, tag.Tokens), 0))
}

// find returns the usage for a key, or for otherModel if the key has none. add creates the usage of
// a new key, within maxModels. The caller holds u.mu.
func (u *usage) find(key modelKey, add bool) *modelUsage {
	m := u.models[key]
	if m == nil && (!add || u.names >= maxModels || len(key.model) > maxModelName) {
		key.model = otherModel
		m = u.models[key]
	}
	if m != nil {
		return m
	}
	if u.models == nil {
		u.models = map[modelKey]*modelUsage{}
	}
	if key.model != otherModel {
		key.model = strings.Clone(key.model)
		u.names++
	}
	m = &modelUsage{}
	u.models[key] = m
	return m
}

func (u *usage) remove(pool string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key := range u.models {
		if key.pool != pool {
			continue
		}
		if key.model != otherModel {
			u.names--
		}
		delete(u.models, key)
	}
}

var (
	modelRequestsDesc = prometheus.NewDesc("penstock_picker_model_requests_total",
		"Requests that ended, by the model that they name and outcome: served, or failed (status 400 and above, no "+
			"response, a stream that is cut or begins with an error, or that one ends, if picker.tokenUsage has it "+
			"read). At most 1,000 models have names; the others, and failed requests for names that no server has "+
			"accepted, are other.", []string{"pool", "model", "outcome"}, nil)
	modelFirstByteDesc = prometheus.NewDesc("penstock_picker_model_first_byte_seconds_total",
		"Total time to the first byte of the response's body of all requests served, by model.",
		[]string{"pool", "model"}, nil)
	modelTokensDesc = prometheus.NewDesc("penstock_picker_model_prompt_tokens_total",
		"Tokens of the prompts of all requests served, by model, where the picker reads prompts: a quarter of their "+
			"bytes, unless token IDs are given. Type input counts all, type cached the tokens that the picker "+
			"expected in the server's cache.", []string{"pool", "model", "type"}, nil)
	modelOutputDesc = prometheus.NewDesc("penstock_picker_model_output_tokens_total",
		"Tokens of the responses of all requests served, by model and the responses' own account, of pools whose "+
			"PoolPolicy has picker.tokenUsage.", []string{"pool", "model"}, nil)
	queueDesc = prometheus.NewDesc("penstock_picker_queue_requests",
		"Requests that wait at the pool's endpoints, by their metrics pages; only endpoints with fresh metrics count.",
		[]string{"pool"}, nil)
	saturationDesc = prometheus.NewDesc("penstock_picker_saturation_ratio",
		"How much of the pool is in use, 0 to 1: the mean, over the endpoints with fresh metrics, of their KV "+
			"cache's use, or 1 where requests wait.", []string{"pool"}, nil)
)

func (u *usage) collect(ch chan<- prometheus.Metric) {
	u.mu.Lock()
	all := make(map[modelKey]modelUsage, len(u.models))
	for key, m := range u.models {
		all[key] = *m
	}
	u.mu.Unlock()
	names := map[modelKey]bool{}
	for key, m := range all {
		name := modelKey{key.pool, strings.ToValidUTF8(key.model, "\uFFFD")}
		if names[name] { // the names differ only in invalid bytes
			continue
		}
		names[name] = true
		count := func(d *prometheus.Desc, v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v,
				append([]string{name.pool, name.model}, labels...)...)
		}
		count(modelRequestsDesc, float64(m.served), "served")
		count(modelRequestsDesc, float64(m.failed), "failed")
		count(modelFirstByteDesc, m.firstByte.Seconds())
		if m.output > 0 {
			count(modelOutputDesc, float64(m.output))
		}
		if m.input > 0 {
			count(modelTokensDesc, float64(m.input), "input")
			count(modelTokensDesc, float64(m.cached), "cached")
		}
	}
}

type saturated struct{ endpoints, queue, use float64 }

func (s *saturated) add(state *endpoint.State) {
	if !state.Fresh {
		return
	}
	s.endpoints++
	s.queue += state.Queue
	if state.Queue > 0 {
		s.use++
	} else {
		s.use += min(max(state.KV, 0), 1)
	}
}
