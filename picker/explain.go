package picker

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/flow"
	"github.com/penstock-project/penstock/picker/models"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Explanation describes which endpoints a pool would choose now, and why.
type Explanation struct {
	Pool     string `json:"pool"`
	Known    bool   `json:"known"` // if false, only Pool is set
	Strategy string `json:"strategy,omitempty"`
	Choice   string `json:"choice,omitempty"`
	Body     string `json:"body,omitempty"` // the requests whose bodies the pool reads; "" for none
	// Criticality is "" if the pool does not use it.
	Criticality schedule.Criticality `json:"criticality,omitempty"`
	// Targets are the models that may replace the request's model. The other fields assume the
	// target of the greatest weight.
	Targets []ModelTarget `json:"targets,omitempty"`
	// Scored is the time of the earlier pick whose external scores this explanation reuses, or nil.
	Scored *time.Time `json:"scored,omitempty"`
	// Processor is the service that the pool calls before each pick, or nil. The other fields
	// ignore its answer.
	Processor *Prepares `json:"processor,omitempty"`
	// Flow is the state of flow control, or nil without flow control. The other fields assume that
	// flow control has admitted the request.
	Flow *Held `json:"flow,omitempty"`
	// Relay lists the addresses of the pool's remote pickers. If set, the fields about endpoints
	// are unset.
	Relay []string `json:"relay,omitempty"`
	// Clusters are the clusters of an import, best first, for a request without a prompt. If set,
	// the fields about endpoints are unset.
	Clusters []ClusterCost `json:"clusters,omitempty"`
	// Endpoints is the list that Envoy would get. If "", the pick would fail with Status (429 or
	// 503) and Reason.
	Endpoints  string             `json:"endpoints,omitempty"`
	MaxRetries int                `json:"maxRetries"`
	Status     int                `json:"status,omitempty"`
	Reason     string             `json:"reason,omitempty"`
	Exceeded   []schedule.Excess  `json:"exceeded,omitempty"`
	Verdicts   []schedule.Verdict `json:"verdicts,omitempty"` // one for each endpoint, by address
	// Stages are the choices for requests that need image encoding or separate prompt reading.
	Stages []Stage `json:"stages,omitempty"`
}

// Stage is a choice of servers that encode images or read prompts for the main server.
type Stage struct {
	Name      string             `json:"name"`
	Endpoints string             `json:"endpoints,omitempty"` // "" if no server accepts requests
	Verdicts  []schedule.Verdict `json:"verdicts,omitempty"`
}

// Held is the state of a pool's flow control.
type Held struct {
	Saturation float64     `json:"saturation"` // requests wait if it is at least 1
	Waiting    []flow.Band `json:"waiting,omitempty"`
}

const explainTimeout = 300 * time.Millisecond

// Explain returns which endpoints the pool would choose now for a request with these headers (names
// in lower case). Explain does not change later picks.
func (p *Picker) Explain(name string, headers map[string]string) Explanation {
	pool := p.pool(name)
	if pool == nil {
		return Explanation{Pool: name}
	}
	e := Explanation{Pool: pool.Name, Known: true, Strategy: pool.strategyName(), Choice: pool.choiceName(),
		Body: string(pool.Body)}
	if pool.Relay != nil {
		for _, addr := range pool.Relay.Pickers {
			e.Relay = append(e.Relay, addr.String())
		}
		return e
	}
	if pool.Clusters != nil {
		_, stay := pool.stay(headerOf(headers), time.Now())
		e.Clusters, _ = p.config.Chooser.Choose(pool.ID, ClusterPrompt{Stay: stay}, false, nil)
		return e
	}
	var spill []string
	if text := headers[extproc.MetadataKeySpill]; text != "" {
		spill = strings.Split(text, ",")
	}
	var allowed func(*endpoint.Endpoint) bool
	if text := headers[extproc.MetadataKeySubset]; text != "" {
		allowed = pool.selected(text, nil)
	}
	pool.snapshot.Refresh(explainTimeout)
	var scratch schedule.Scratch
	now := time.Now()
	header := headerOf(headers)
	request := schedule.Request{Model: headers[modelHeader],
		Criticality: criticality(pool.priorityOf(pool.trustsHeaders, header, headers[modelHeader]))}
	if e.Targets = pool.targets(request.Model); len(e.Targets) > 0 {
		request.Model = slices.MaxFunc(e.Targets, func(a, b ModelTarget) int {
			return cmp.Compare(a.Weight, b.Weight)
		}).Name
	}
	request.Session, request.Objective = pool.session(header, now), pool.objective(header)
	if schedule.UsesCriticality(&pool.options) || pool.sheds(request.Criticality) ||
		request.Objective != (schedule.Objective{}) {
		e.Criticality = cmp.Or(request.Criticality, schedule.Standard)
	}
	request.External, e.Scored = pool.recordedScores()
	e.Processor = pool.prepares()
	if pool.queue != nil {
		e.Flow = &Held{Saturation: pool.FlowControl.Measure(pool.snapshot.Endpoints, now).Saturation,
			Waiting: pool.queue.Bands()}
	}
	lacking := pool.holders.Known(request.Model)
	var ranked []schedule.Candidate
	preview := func(among func(*endpoint.Endpoint) bool) []schedule.Candidate {
		return pool.strategy.Preview(&request, now, pool.snapshot.Endpoints, among, 1+pool.Fallbacks, &scratch)
	}
	if lacking != nil {
		ranked = preview(within(allowed, lacking.Keep()))
	}
	if up := len(ranked) > 0 && !ranked[0].Suspect(); lacking == nil ||
		!up && (!lacking.Strict || scratch.Eligible == 0) {
		lacking, ranked = nil, preview(allowed)
	}
	user := max(extproc.Number(headers[extproc.MetadataKeyRetries]), extproc.Number(headers["x-envoy-max-retries"]))
	a := pool.reject(&scratch, allowed != nil)
	if len(ranked)+len(spill) > 0 {
		a = list(ranked, spill, pool.retries(user, ranked), nil)
	}
	e.Endpoints, e.MaxRetries, e.Status, e.Reason = a.Endpoints.String(), max(a.MaxRetries, 0), a.Status, a.Reason
	if len(ranked) == 0 {
		e.Exceeded = pool.strategy.Exceeded(&scratch)
	}
	e.Verdicts = pool.describe(pool.strategy, &request, now, allowed, lacking)
	for i := range e.Verdicts {
		e.Verdicts[i].Prefixes = pool.reported(pool.snapshot.Endpoints[i].Addr)
	}
	e.Stages = pool.explainStages(&request, now)
	return e
}

func (pool *pool) describe(
	s *schedule.Strategy, r *schedule.Request, now time.Time, allowed func(*endpoint.Endpoint) bool,
	lacking *models.Lacking,
) []schedule.Verdict {
	among := allowed
	if lacking != nil {
		among = within(allowed, lacking.Keep())
	}
	verdicts := s.Describe(r, now, pool.snapshot.Endpoints, among)
	for i := range verdicts {
		v, e := &verdicts[i], &pool.snapshot.Endpoints[i]
		if lacking != nil && (allowed == nil || allowed(e)) && !lacking.Keep()(e) {
			v.Out = "model"
		}
		if v.Problem = cmp.Or(v.Problem, pool.loads.Problem(e.Addr)); v.Problem == "" && !v.State.Fresh {
			v.Problem = e.Staleness(endpoint.At(now))
		}
	}
	return verdicts
}

func headerOf(headers map[string]string) func(string) []byte {
	return func(name string) []byte {
		if text, ok := headers[name]; ok {
			return []byte(text)
		}
		return nil
	}
}

// History returns the pool's recorded picks with verdicts, newest first; nil for an unknown pool.
func (p *Picker) History(name string) []*Record {
	pool := p.pool(name)
	if pool == nil {
		return nil
	}
	return pool.history.list()
}

// ServeHTTP serves /debug/picks?pool=NAME as JSON: the pool's picks with verdicts or, without a
// pool, all pool names.
func (p *Picker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer any
	status := http.StatusOK
	if name := r.URL.Query().Get("pool"); name == "" {
		answer = map[string]any{"pools": p.Pools()}
	} else if picks := p.History(name); picks != nil {
		answer = map[string]any{"pool": name, "picks": picks}
	} else {
		status = http.StatusNotFound
		answer = map[string]any{"error": "no pool " + name, "pools": p.Pools()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(answer) // fails only if the client has disconnected
}
