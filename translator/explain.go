package translator

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/discovery/credential"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

// Query describes the request that Explain follows.
type Query struct {
	// URL's host is the TLS server name. It is also the request's host, if Header has no Host.
	URL *url.URL
	// Target is the path and query on the wire; "" means URL's.
	Target  string
	Method  string // "": GET, or POST if only POST has a route
	Header  http.Header
	Model   string // in the request's body; "" for none
	Key     string // name of an APIKey object, "namespace/name"
	Token   string // JSON Web Token; no page or error shows it
	Gateway string // "" for all Gateways
}

// ParseURL returns the Query for a URL, with path and query as written, even if Go cannot parse
// them.
func ParseURL(text string) (Query, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return Query{}, errors.New("it has no scheme")
	}
	rest, _, _ = strings.Cut(rest, "#") // clients do not send the fragment
	end := strings.IndexAny(rest+"/", "/?")
	target := rest[end:]
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	u, err := url.Parse(scheme + "://" + rest[:end])
	if err == nil && u.Host == "" {
		err = errors.New("it has no host")
	}
	return Query{URL: u, Target: target, Header: http.Header{}}, err
}

func (q *Query) text() string {
	switch q.Target {
	case "":
		return q.URL.String()
	case "/":
		return q.URL.Scheme + "://" + q.URL.Host
	}
	return q.URL.Scheme + "://" + q.URL.Host + q.Target
}

func (q *Query) request(method string, tls bool) envoy.Request {
	r := envoy.Request{Method: method, Authority: q.URL.Host, Target: q.Target, Header: q.Header, Model: q.Model,
		TLS: tls}
	if host := q.Header.Get("Host"); host != "" {
		r.Authority = host
	}
	if r.Target == "" {
		r.Target = q.URL.RequestURI()
	}
	return r
}

// Explanation describes a request's path through the gateway.
type Explanation struct {
	URL      string      `json:"url"`
	Method   string      `json:"method,omitempty"` // "" for a connection
	Gateway  string      `json:"gateway,omitempty"`
	Listener string      `json:"listener,omitempty"` // Key of the model.Listener
	Chain    string      `json:"chain,omitempty"`
	Host     string      `json:"host,omitempty"`
	Route    *report.Ref `json:"route,omitempty"`
	Rule     int         `json:"rule"` // position in the route
	RuleName string      `json:"ruleName,omitempty"`
	// Name is Envoy's name for the route.
	Name string `json:"name,omitempty"`
	// Models lists at most 8 models with which earlier rules would match the same request.
	Models []string `json:"models,omitempty"`
	Match  string   `json:"match,omitempty"`
	Answer string   `json:"answer"` // the result as a sentence
	// Served reports whether a redirect, or the backend of each share, answers the request.
	Served  bool     `json:"served"`
	Filters []string `json:"filters,omitempty"`
	// Gates, Reaches and ByModel are as in model.Route.
	Gates    []string      `json:"policies,omitempty"`
	Reaches  []string      `json:"reaches,omitempty"`
	ByModel  bool          `json:"byModel,omitempty"`
	Backends []BackendView `json:"backends,omitempty"`
}

// BackendView is one share of a rule's requests.
type BackendView struct {
	Backend   string   `json:"backend"`
	Share     string   `json:"share"` // "50.0%"
	Cluster   string   `json:"cluster,omitempty"`
	Picker    string   `json:"picker,omitempty"`
	Pool      string   `json:"pool,omitempty"`   // objectid.Target
	Subset    string   `json:"subset,omitempty"` // the picker's label selector of endpoints
	Body      string   `json:"body,omitempty"`
	TLS       string   `json:"tls,omitempty"` // how Envoy verifies the servers
	Filters   []string `json:"filters,omitempty"`
	NoPick    string   `json:"noPick,omitempty"` // what happens if the picker picks nothing usable
	Spill     []string `json:"spill,omitempty"`
	Endpoints []string `json:"endpoints,omitempty"`
	relayed   bool
	Hops      []HopView `json:"hops,omitempty"`
}

// HopView describes a hop: an internal listener of Envoy, in front of another pool or cluster.
type HopView struct {
	Endpoint string `json:"endpoint"`
	// Share is the share of first attempts; "" if hops have no weights.
	Share string `json:"share,omitempty"`
	// Later means that Envoy tries the hop only after earlier clusters have declined a request, and
	// Last only after all clusters have.
	Later    bool          `json:"later,omitempty"`
	Last     bool          `json:"last,omitempty"`
	Backends []BackendView `json:"backends"`
}

// Explain follows a request through the current translation. A URL with scheme grpc or grpcs means
// a gRPC request (POST).
func (t *Translator) Explain(q Query) Explanation {
	method := cmp.Or(q.Method, http.MethodGet)
	e := t.follow(q, method)
	if q.Method == "" && e.Host != "" && e.Route == nil {
		if post := t.follow(q, http.MethodPost); post.Route != nil {
			e = post
		}
	}
	if len(e.Backends) > 0 {
		e.Served = allServed(e.Backends, nil)
	}
	return e
}

// Without sets e.Served to false if unserved returns true for the cluster of some share.
func (e *Explanation) Without(unserved func(cluster string) bool) {
	if !e.Served || len(e.Backends) == 0 {
		return
	}
	if e.Served = allServed(e.Backends, unserved); !e.Served {
		e.Answer += ", and not served: no server of a backend serves now"
	}
}

func allServed(backends []BackendView, unserved func(cluster string) bool) bool {
	some := false
	for i := range backends {
		b := &backends[i]
		if b.Share == "0%" || b.Share == "0.0%" {
			continue
		}
		if some = true; !b.served(unserved) {
			return false
		}
	}
	return some
}

func (b *BackendView) served(unserved func(cluster string) bool) bool {
	if b.Cluster == "" {
		return false
	}
	hops := 0
	for _, h := range b.Hops {
		if hops++; allServed(h.Backends, unserved) {
			return true
		}
	}
	if unserved != nil && unserved(b.Cluster) {
		return false
	}
	return b.relayed || len(b.Endpoints) > hops
}

func (t *Translator) follow(q Query, method string) Explanation {
	r := t.engine.Reader()
	e := Explanation{URL: q.text(), Method: method}
	way := wayOf(q.URL.Scheme)
	if way.grpc {
		e.Method, q.Header = http.MethodPost, q.Header.Clone()
		if q.Header == nil {
			q.Header = http.Header{}
		}
		q.Header.Set("content-type", "application/grpc")
	}
	if !way.requests {
		e.Method = ""
	}
	port := portOf(q.URL)
	name := strings.ToLower(q.URL.Hostname())
	if h := q.Header.Get("Host"); h != "" && !way.tls {
		name = strings.ToLower((&url.URL{Host: h}).Hostname())
	}
	for key, gw := range t.tables.gateways.All(r) {
		if q.Gateway != "" && q.Gateway != key {
			continue
		}
		for _, p := range gatewayapi.Ports(gw) {
			if p.Socket() != (model.Socket{UDP: way.udp, Port: port}) {
				continue
			}
			if t.explainStream(r, &e, way, gw, p, name) {
				return e
			}
			chain, ok := chainFor(p.Chains, way.tls, name)
			if !ok {
				continue
			}
			e.Gateway, e.Chain = key, chain.Name
			if !way.requests {
				e.Listener = listenerFor(gw, chain.Name, name)
				e.Answer = "the listener takes requests, not connections: ask for https://" + q.URL.Host
				return e
			}
			arrived, answer := envoy.Arrive(p.Edge, q.request(e.Method, way.tls))
			if answer != nil {
				e.Answer = fmt.Sprintf("%d: %s", answer.Status, answer.Body)
				e.Served = answer.Status == http.StatusTemporaryRedirect
				return e
			}
			e.Listener = listenerFor(gw, chain.Name, arrived.Host)
			t.explainHost(r, &e, &arrived, chain)
			if arrived.UpgradesTwice() && (e.Route != nil || len(e.Models) > 0) {
				e.Answer, e.Name, e.Route, e.Backends = "403: the header upgrade names a protocol twice", "", nil, nil
				e.Served = false
			}
			if e.Host != "" {
				return e
			}
		}
	}
	if e.Gateway == "" {
		e.Answer = t.notServed(r, q, way, port, name)
	}
	return e
}

func (t *Translator) notServed(r *graph.Reader, q Query, way way, port uint16, host string) string {
	others := false
	for key, gw := range t.tables.gateways.All(r) {
		if q.Gateway != "" && q.Gateway != key {
			continue
		}
		for _, l := range gw.Listeners {
			if l.Port != port || !way.meets(l) {
				continue
			}
			others = true
			if l.Chain != "" || !slices.Contains(gatewayapi.Covering(host), l.Hostname) {
				continue
			}
			for _, c := range l.Conditions {
				if c.Status == report.False && c.Message != "" {
					return fmt.Sprintf("not served: listener %s of %s takes no traffic: %s", l.Name, l.Owner, c.Message)
				}
			}
		}
	}
	if others {
		return fmt.Sprintf("not served: no %s listener on port %d has a hostname that covers %s", way.name, port, host)
	}
	return fmt.Sprintf("not served: no listener for %s on port %d", way.name, port)
}

func portOf(u *url.URL) uint16 {
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(n)
	}
	if wayOf(u.Scheme).tls {
		return 443
	}
	return 80
}

func chainFor(chains []model.Chain, tls bool, host string) (model.Chain, bool) {
	for _, want := range gatewayapi.Covering(host) {
		for _, c := range chains {
			if c.TLS == tls && (!tls || c.ServerName == want || c.ServerName == "" && want == "*") {
				return c, true
			}
		}
	}
	return model.Chain{}, false
}

func listenerFor(g *model.Gateway, chain, host string) string {
	for _, want := range gatewayapi.Covering(host) {
		for _, l := range g.Listeners {
			if l.Chain == chain && l.Hostname == want {
				return l.Key
			}
		}
	}
	return ""
}

func (t *tables) hostFor(r *graph.Reader, gateway, chain, name string) (virtualHost, bool) {
	for _, want := range gatewayapi.Covering(name) {
		if strings.HasPrefix(want, "*.") && len(want) > len(name) {
			continue
		}
		if h, ok := t.virtualHosts.Get(r, hostKey{gateway, chain, want}); ok {
			return h, true
		}
	}
	return virtualHost{}, false
}

func (t *Translator) explainHost(r *graph.Reader, e *Explanation, a *envoy.Arrived, chain model.Chain) {
	name := a.Host
	for _, m := range chain.Misdirected {
		if slices.Contains(gatewayapi.Covering(name), m) {
			if _, own := t.tables.virtualHosts.Get(r, hostKey{e.Gateway, chain.Name, name}); !own {
				e.Answer = "421: the host belongs to another listener of this port"
			}
		}
	}
	h, ok := t.tables.hostFor(r, e.Gateway, chain.Name, name)
	if !ok {
		if e.Answer == "" {
			e.Answer = fmt.Sprintf("404: no listener of this port and no route answers for host %q", name)
		}
		return
	}
	e.Host, e.Answer = h.model.Host, "404: no rule matches"
	for i := range h.model.Routes {
		route := &h.model.Routes[i]
		if !a.Matches(route.Match) {
			if name, other := a.OtherModel(route.Match); other && len(e.Models) < maxModels &&
				!slices.Contains(e.Models, name) {
				e.Models = append(e.Models, name)
			}
			continue
		}
		owner := route.Owner
		e.Route, e.Rule, e.RuleName, e.Name, e.Match = &owner, route.Rule, route.RuleName, route.Name,
			matchText(route.Match)
		if a.Header[envoy.ModelHeader] != nil {
			e.Models = nil // the request's model selects this rule
		}
		e.Gates, e.Reaches, e.ByModel = route.Gates, route.Reaches, route.ByModel
		t.explainAction(r, e, route.Action)
		return
	}
	if list := e.Method == http.MethodGet || e.Method == http.MethodHead; list &&
		strings.HasSuffix(a.Path, "/v1/models") && envoy.ListsModels(h.model) {
		e.Answer, e.Served = "200: the models of all pools that routes of this host name by model", true
	}
}

const maxModels = 8

func (t *Translator) explainAction(r *graph.Reader, e *Explanation, a *model.Action) {
	missing := "500: the backend could not be resolved"
	if e.Route.Kind == store.GRPCRoutes.Kind() {
		missing = "UNAVAILABLE: the backend could not be resolved"
	}
	e.Filters = filterViews(a)
	switch {
	case a.Redirect != nil:
		e.Answer, e.Served = fmt.Sprintf("%d: redirect", a.Redirect.Code), true
	case a.Direct != nil:
		e.Answer = fmt.Sprintf("%d: %s", a.Direct.Status, a.Direct.Body)
	case a.Forward != nil:
		e.Answer = "forwarded"
		e.Backends = t.backendViews(r, a.Forward.Backends, missing)
	}
}

func (t *Translator) backendViews(r *graph.Reader, backends []model.WeightedBackend,
	missing string) (views []BackendView) {
	var total uint64
	for _, b := range backends {
		total += uint64(b.Weight)
	}
	for _, b := range backends {
		views = append(views, t.backendView(r, b, total, missing))
	}
	return views
}

func (t *Translator) backendView(r *graph.Reader, b model.WeightedBackend, total uint64, missing string) BackendView {
	v := BackendView{Backend: b.Backend, Cluster: b.Cluster.String(), Share: percent(uint64(b.Weight), total)}
	if b.Cluster.IsZero() {
		v.NoPick = missing
		return v
	}
	if b.Picker != nil {
		v.Picker, v.Body = b.Picker.Cluster.InAnyConfig().String(), string(b.Picker.Body)
		if !b.Picker.Cluster.External() {
			v.Pool = b.Picker.Pool.String()
		}
		if b.Picker.Subset != nil {
			v.Subset = b.Picker.Subset.Selector
		}
		v.Spill = b.Picker.Spill
	}
	v.Filters = ownViews(&b)
	if _, m, ok := t.tables.importMember(r, b.Cluster); ok && m.Pool != nil && m.Pool.Relay != nil {
		v.relayed = len(m.Pool.Relay.Pickers) > 0
	}
	again := false
	if c, ok := t.tables.cluster(r, b.Cluster); ok {
		again = c.Fallback == model.FallbackAgain
		v.TLS = tlsView(c.TLS)
		v.NoPick = map[model.Fallback]string{
			model.FallbackPods:  "any ready endpoint",
			model.FallbackSpill: "the first spill target",
			model.FallbackAgain: "another pick",
			model.FallbackNone:  "503",
			model.FallbackHops:  "the next hop, when one answers 429 or 503",

			model.FallbackMembers: "another exporting cluster, when one declines",
		}[c.Fallback]
	}
	if a, ok := t.tables.assignment(r, b.Cluster); ok {
		var weights uint64
		for _, ep := range a.Endpoints {
			if ep.Priority == 0 {
				weights += uint64(ep.Weight)
			}
		}
		for _, ep := range slices.SortedStableFunc(slices.Values(a.Endpoints),
			func(a, b model.Endpoint) int { return cmp.Compare(a.Priority, b.Priority) }) {
			if ep.Hop.IsZero() {
				v.Endpoints = append(v.Endpoints, ep.Address.String())
				continue
			}
			if again {
				continue // the hop leads to the pool itself, which NoPick describes
			}
			v.Endpoints = append(v.Endpoints, ep.Hop.Address())
			// Backends behind a hop have no hops themselves (LastVariant), so the recursion ends.
			if hop, ok := inference.Hop(r, ep.Hop); ok {
				h := HopView{Endpoint: ep.Hop.Address(), Backends: t.backendViews(r, hop.Backends, missing)}
				if ep.Weight > 0 && ep.Priority == 0 {
					h.Share = percent(uint64(ep.Weight), weights)
				}
				if ep.Hop.Member != "" && ep.Hop.Member != model.AnyMember {
					declines(h.Backends)
				}
				if b.Cluster.Kind == model.MembersKind {
					h.Last = ep.Hop.Member == model.AnyMember
					h.Later = ep.Priority > 0 && !h.Last
				}
				v.Hops = append(v.Hops, h)
			}
		}
	}
	return v
}

func declines(views []BackendView) {
	for i := range views {
		if views[i].NoPick != "" {
			views[i].NoPick = "another exporting cluster"
		}
	}
}

func percent(part, sum uint64) string {
	if sum == 0 {
		return "0%"
	}
	return strconv.FormatFloat(float64(part)*100/float64(sum), 'f', 1, 64) + "%"
}

func matchText(m model.Match) string {
	parts := []string{string(m.PathKind) + " " + credential.Text(m.Path)}
	if m.GRPC != nil {
		parts[0] = "gRPC, " + parts[0]
	}
	if m.Method != "" {
		parts = append(parts, "method "+m.Method)
	}
	for _, h := range m.Headers {
		parts = append(parts, "header "+valueText(h))
	}
	for _, p := range m.Query {
		parts = append(parts, "query "+valueText(p))
	}
	return strings.Join(parts, ", ")
}

func valueText(m model.ValueMatch) string {
	if m.Present {
		return m.Name + " with any value"
	}
	return m.Name + "=" + credential.Value(m.Name, cmp.Or(m.Written, m.Value))
}

// ExplainRow returns the rows with a key, in all tables (graph.Engine.Explain).
func (t *Translator) ExplainRow(key string) []graph.Explanation { return t.engine.Explain(key) }
