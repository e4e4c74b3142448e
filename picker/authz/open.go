package authz

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/authz/jwt"
)

const (
	// maxOpen bounds the open requests that one process watches, each with about 20 KiB of memory.
	maxOpen        = 16_384
	maxOpenGateway = maxOpen / 2
	// sweepEvery is how often Run checks for expired keys and tokens. It bounds the time from an
	// expiry to the end of the requests.
	sweepEvery = 250 * time.Millisecond
	maxGrant   = 8 << 10
)

// grant has what Check read from a request, except what the route states. It travels in the
// request's metadata. A process that watches the request later decides again from the grant.
type grant struct {
	Hash  string `json:"h"`
	Model string `json:"m,omitempty"`
	Lists bool   `json:"l,omitempty"`
	// Tokens has, by policy, the fingerprint of the rule that permitted the token.
	Tokens  map[string]string `json:"t,omitempty"`
	Expires int64             `json:"e,omitempty"` // the token's exp, in Unix seconds
}

// grantOf returns the encoded grant of a request, in base64url: Envoy's format strings never
// interpret it.
func (t *Table) grantOf(r Request) string {
	credential, _ := presented(r.Headers)
	hash := HashOf(credential)
	g := grant{Hash: hash.String(), Model: r.Model, Lists: r.Lists}
	for i, rule := range t.Rules(r.Policies) {
		if i >= len(r.Tokens) || r.Tokens[i] == nil || rule == nil {
			continue
		}
		if g.Tokens == nil {
			g.Tokens = map[string]string{}
		}
		g.Tokens[r.Policies[i]], g.Expires = fingerprint(rule), r.Tokens[i].Expires.Unix()
	}
	text, _ := json.Marshal(g) // no error: only strings and numbers
	return base64.RawURLEncoding.EncodeToString(text)
}

// fingerprint returns a hash of a rule's requirements. While it is unchanged, the rule still
// accepts the tokens that it has accepted.
func fingerprint(r *jwt.Rule) string {
	d := xxhash.New()
	for _, text := range append([]string{r.Namespace, r.Source.Issuer}, slices.Sorted(slices.Values(r.Audiences))...) {
		_, _ = d.WriteString(text + "\x00")
	}
	return hex.EncodeToString(d.Sum(nil))
}

// Watched describes a request that Check has permitted.
type Watched struct {
	Gateway  string   // "" if calls are not authenticated
	Grant    string   // the metadata "grant" that Check set
	Policies []string // of the route, "namespace/name"
	Pools    []string
}

// ErrGrant is the error of Open.Watch if Check has not permitted the request. After any other
// error, another process may watch the request.
var (
	ErrGrant = errors.New("the call has no grant of a gate")
	ErrFull  = errors.New("this process watches as many open requests as it may")
	errGates = errors.New("a policy gates no route of this Gateway, or not yet")
)

// OpenConfig configures an Open.
type OpenConfig struct {
	Table *Table
	// Gates is Config.Gates.
	Gates func(gateway, policy string) bool
	// Failures records the calls that end with an error; may be nil.
	Failures *Failures
	Now      func() time.Time
}

// Open watches the open requests of routes whose policies have revoke: Immediately. It ends a
// request when the policies of its route no longer permit its key or token. It is safe for
// concurrent use.
type Open struct {
	cfg  OpenConfig
	wake chan struct{} // has room for one element

	mu       sync.Mutex
	byHash   map[Hash]map[*watched]struct{}
	gateways map[string]int
	count    int
	denied   uint64
}

type watched struct {
	gateway string
	hash    Hash
	request Request
	token   time.Time // expiry; zero without a token
	rules   []string  // of the rules that accepted the token, by policy
	expires time.Time // next expiry of a key or token; zero without one
	ended   bool
	end     func(Decision)
}

// NewOpen makes an Open that reacts to every change of the Table. A Table has at most one Open.
func NewOpen(cfg OpenConfig) *Open {
	o := &Open{cfg: cfg, wake: make(chan struct{}, 1), byHash: map[Hash]map[*watched]struct{}{},
		gateways: map[string]int{}}
	cfg.Table.follow(o.changed)
	return o
}

// Run ends requests when their keys or tokens expire, until ctx ends.
func (o *Open) Run(ctx context.Context) error {
	ticks := time.NewTicker(sweepEvery)
	defer ticks.Stop()
	for {
		next := ticks.C
		if !o.sweep(o.cfg.Now()) { // no watched key or token expires
			next = nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-o.wake:
		case <-next:
		}
	}
}

// Watch watches a request until the caller calls done. If the policies deny the request, Open calls
// end: at most once, perhaps before Watch returns, and never after done has returned.
func (o *Open) Watch(in Watched, end func(Decision)) (done func(), err error) {
	w, err := o.read(in)
	if err != nil {
		return nil, err
	}
	w.end = end
	if !o.add(w) {
		o.cfg.Failures.call(causeFull, ErrFull.Error())
		return nil, ErrFull
	}
	// The request was added before this decision, so a later change of the Table finds it.
	d, err := o.decide(w)
	if err != nil {
		o.remove(w)
		o.cfg.Failures.call(causeKeys, err.Error())
		return nil, err
	}
	o.finish(w, d)
	return func() { o.remove(w) }, nil
}

func (o *Open) read(in Watched) (*watched, error) {
	var g grant
	text, err := base64.RawURLEncoding.DecodeString(in.Grant)
	if len(in.Grant) > maxGrant || err != nil || json.Unmarshal(text, &g) != nil {
		return nil, ErrGrant
	}
	hash, err := ParseHash(g.Hash)
	if err != nil || len(in.Policies) == 0 {
		return nil, ErrGrant
	}
	w := &watched{gateway: in.Gateway, hash: hash, rules: make([]string, len(in.Policies)),
		request: Request{Policies: in.Policies, Pools: in.Pools, Known: true, Model: g.Model, Lists: g.Lists}}
	for i, p := range in.Policies {
		if in.Gateway != "" && !o.cfg.Gates(in.Gateway, p) {
			o.cfg.Failures.call(causePolicy, errGates.Error())
			return nil, errGates
		}
		w.rules[i] = g.Tokens[p]
	}
	if len(g.Tokens) > 0 {
		w.token = time.Unix(g.Expires, 0)
	}
	return w, nil
}

func (o *Open) add(w *watched) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count >= maxOpen || o.gateways[w.gateway] >= maxOpenGateway {
		return false
	}
	o.count++
	o.gateways[w.gateway]++
	if o.byHash[w.hash] == nil {
		o.byHash[w.hash] = map[*watched]struct{}{}
	}
	o.byHash[w.hash][w] = struct{}{}
	return true
}

func (o *Open) remove(w *watched) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w.ended = true
	o.count--
	if o.gateways[w.gateway]--; o.gateways[w.gateway] == 0 {
		delete(o.gateways, w.gateway)
	}
	if delete(o.byHash[w.hash], w); len(o.byHash[w.hash]) == 0 {
		delete(o.byHash, w.hash)
	}
}

// Count returns the number of watched requests.
func (o *Open) Count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count
}

func (o *Open) decide(w *watched) (Decision, error) {
	d, expires, err := o.cfg.Table.decideAgain(w, o.cfg.Now())
	if err != nil {
		return d, err
	}
	o.mu.Lock()
	w.expires = expires
	o.mu.Unlock()
	if !expires.IsZero() {
		select {
		case o.wake <- struct{}{}:
		default:
		}
	}
	return d, nil
}

// decideAgain decides about a watched request, and returns the next expiry of a key or token. It
// ignores policies that were removed since. If no other policy has revoke: Immediately, it permits
// the request.
func (t *Table) decideAgain(w *watched, now time.Time) (d Decision, expires time.Time, err error) {
	r := w.request
	keys, found, err := t.find(w.hash, r.Policies)
	if err != nil {
		return d, expires, err
	}
	var all []*Policy
	var rules []string
	watches := false
	r.Policies = nil
	for i, name := range w.request.Policies {
		if !t.isRemoved(name) {
			r.Policies, all, rules = append(r.Policies, name), append(all, found[i]), append(rules, w.rules[i])
			watches = watches || found[i].Watches
		}
	}
	if !watches {
		return Decision{}, expires, nil
	}
	earlier := func(at time.Time) {
		if !at.IsZero() && now.Before(at) && (expires.IsZero() || at.Before(expires)) {
			expires = at
		}
	}
	if !w.token.IsZero() {
		r.Tokens = make([]*Key, len(all))
		for i, p := range all {
			if p.JWT != nil && rules[i] != "" && fingerprint(p.JWT) == rules[i] {
				r.Tokens[i] = &Key{Expires: w.token}
			}
		}
		earlier(w.token)
	}
	for _, k := range keys {
		earlier(k.Expires)
	}
	return decide(r, keys, all, now), expires, nil
}

func (o *Open) changed(hashes []Hash, policies []string) {
	o.mu.Lock()
	list := map[*watched]struct{}{}
	for _, h := range hashes {
		maps.Copy(list, o.byHash[h])
	}
	if len(policies) > 0 {
		o.collect(list, func(w *watched) bool {
			return slices.ContainsFunc(policies, func(p string) bool { return slices.Contains(w.request.Policies, p) })
		})
	}
	o.mu.Unlock()
	o.again(list)
}

// sweep ends requests whose keys or tokens have expired. It returns false if no watched key or
// token has an expiry.
func (o *Open) sweep(now time.Time) (more bool) {
	o.mu.Lock()
	list := map[*watched]struct{}{}
	o.collect(list, func(w *watched) bool {
		more = more || !w.expires.IsZero()
		return !w.expires.IsZero() && !now.Before(w.expires)
	})
	o.mu.Unlock()
	o.again(list)
	return more
}

// The caller holds o.mu.
func (o *Open) collect(list map[*watched]struct{}, selects func(*watched) bool) {
	for _, set := range o.byHash {
		for w := range set {
			if selects(w) {
				list[w] = struct{}{}
			}
		}
	}
}

// again decides again about requests. If the Table lacks a policy, the request stays open.
func (o *Open) again(list map[*watched]struct{}) {
	for w := range list {
		if d, err := o.decide(w); err == nil {
			o.finish(w, d)
		}
	}
}

// finish ends a denied request. It holds the lock during end, so that done waits for end.
func (o *Open) finish(w *watched, d Decision) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if d.Reason != "" && !w.ended {
		w.ended = true
		o.denied++
		w.end(d)
	}
}

// Denial returns the HTTP status and the error text of a decision that denies a request.
func (d Decision) Denial() (status int, text string) {
	how := denials[d.Reason]
	return int(how.status), how.text
}

var (
	watchedDesc = prometheus.NewDesc("penstock_gate_watched_requests",
		"Open requests of AccessPolicies with revoke: Immediately that this process watches.", nil, nil)
	endedDesc = prometheus.NewDesc("penstock_gate_ended_requests_total",
		"Open requests that this process ended because their AccessPolicies no longer let the key or token in.", nil,
		nil)
)

// Describe implements prometheus.Collector.
func (o *Open) Describe(ch chan<- *prometheus.Desc) {
	ch <- watchedDesc
	ch <- endedDesc
}

// Collect implements prometheus.Collector.
func (o *Open) Collect(ch chan<- prometheus.Metric) {
	o.mu.Lock()
	count, denied := o.count, o.denied
	o.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(watchedDesc, prometheus.GaugeValue, float64(count))
	ch <- prometheus.MustNewConstMetric(endedDesc, prometheus.CounterValue, float64(denied))
}
