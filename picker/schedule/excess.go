package schedule

import "github.com/penstock-project/penstock/picker/endpoint"

// Excess is an exceeded limit that made a request fail with 429 or go to spill targets.
type Excess struct {
	// Limit is a field of PoolPolicy's spec, or the name of a limit of the strategy or the request.
	Limit string  `json:"limit"`
	Unit  string  `json:"unit,omitempty"`
	Max   float64 `json:"max"`
	// Value is the measured or predicted value, in Unit: the smallest among the endpoints that
	// exceed the limit.
	Value float64 `json:"value"`
	// Endpoints counts the endpoints over the limit; 0 if the limit is not per endpoint. Value was
	// predicted for Endpoint, if this is not "".
	Endpoints int    `json:"endpoints,omitempty"`
	Endpoint  string `json:"endpoint,omitempty"`
}

// LimitInFlight names the limit Full.InFlight.
const LimitInFlight = "picker.full.inFlight"

type tally struct {
	endpoints int
	least     float64
}

func (t *tally) add(value float64) {
	if t.endpoints++; t.endpoints == 1 || value < t.least {
		t.least = value
	}
}

func (t *tally) appendTo(all []Excess, limit, unit string, most float64) []Excess {
	if t.endpoints == 0 {
		return all
	}
	return append(all, Excess{Limit: limit, Unit: unit, Max: most, Value: t.least, Endpoints: t.endpoints})
}

type fullBy struct{ queue, kv, inFlight tally }

func (f *fullBy) add(limits Full, s *endpoint.State) {
	r := limits.reached(s)
	if r&reachedQueue != 0 {
		f.queue.add(queue(s))
	}
	if r&reachedKV != 0 {
		f.kv.add(100 * s.KV)
	}
	if r&reachedInFlight != 0 {
		f.inFlight.add(float64(s.InFlight))
	}
}

// Exceeded returns the limits that made the last Rank or Preview return no endpoint.
func (s *Strategy) Exceeded(scratch *Scratch) []Excess {
	if scratch.Shed {
		return scratch.excess
	}
	all := scratch.full.queue.appendTo(nil, "picker.full.queue", "", float64(s.full.Queue))
	all = scratch.full.kv.appendTo(all, "picker.full.kvCachePercent", "%", float64(s.full.KVCachePercent))
	return scratch.full.inFlight.appendTo(all, LimitInFlight, "", float64(s.full.InFlight))
}

type shedder interface {
	// exceeded returns the limits that made the chooser shed the request. It may reorder c.
	exceeded(c []Candidate, states []endpoint.State) []Excess
}
