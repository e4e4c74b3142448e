package schedule

import "sync/atomic"

// strategies by name. A new strategy is a row here, and a file if it needs one.
var strategies = map[string]func(Options) *Strategy{
	// Queue, KV cache and requests in flight, weighted.
	"load": func(o Options) *Strategy {
		w := o.Weights
		if w == (Weights{}) {
			w = Weights{Queue: 2, KVCache: 2, InFlight: 1}
		}
		return &Strategy{scorers: normalise(
			weighted{queueScorer, float64(w.Queue)}, weighted{kvScorer, float64(w.KVCache)}, weighted{loadScorer, float64(w.InFlight)},
			// As much as all others together: a server whose page can't be read is probably dead, and its cost would fall
			// with each request that Envoy retries elsewhere.
			weighted{staleScorer, float64(w.Queue) + float64(w.KVCache) + float64(w.InFlight)})}
	},
	// The fewest of this process's requests in flight.
	"least-request": func(Options) *Strategy {
		return &Strategy{scorers: normalise(weighted{inFlightScorer, 1})}
	},
	// All endpoints in turn, by address.
	"round-robin": func(Options) *Strategy { return &Strategy{turn: new(atomic.Uint64)} },
	// All endpoints with equal probability.
	"random": func(Options) *Strategy { return &Strategy{} },
}

// UsesMetrics reports whether a strategy of this name, with these thresholds, needs the model servers' metrics pages.
func UsesMetrics(name string, full Full) bool {
	return name == "" || name == "load" || full.Queue > 0 || full.KVCachePercent > 0
}

// normalise scales the weights to a sum of 1 and removes those of 0.
func normalise(in ...weighted) []weighted {
	var out []weighted
	sum := 0.0
	for _, w := range in {
		if w.weight > 0 {
			out = append(out, w)
			sum += w.weight
		}
	}
	for i := range out {
		out[i].weight /= sum
	}
	return out
}
