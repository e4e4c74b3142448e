package app

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/debug"
	"github.com/penstock-project/penstock/cmd/penstock/internal/gates"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/graph"
)

// Explained is the translator's explanation of a request, with the state of a running process.
type Explained struct {
	translator.Explanation
	// Access describes what the AccessPolicies of the route decide; "": the route has none, and the
	// request has no key or token.
	Access string `json:"access,omitempty"`
	// Picks are the picks that the picker would make now, by pool.
	Picks map[string]json.RawMessage `json:"picks,omitempty"`
	// Servers counts the servers that serve now. Its keys are clusters of backends.
	Servers    map[string]picker.Serving `json:"servers,omitempty"`
	Conditions []status.Object           `json:"objects,omitempty"`
	// Silent are the members of the cluster set that do not report now, and their states.
	Silent map[string]registry.State `json:"silent,omitempty"`
}

// Explain adds the reports and the decision of AccessPolicies to the translator's explanation.
func (c *core) Explain(q translator.Query) Explained {
	var out Explained
	c.translation.Read(func(t *translator.Translator) {
		fault(q)
		out.Explanation = t.Explain(q)
	})
	view := c.store.View()
	out.explainAccess(view, q, time.Now(), func() gate {
		if c.gate != nil {
			return *c.gate
		}
		return gate{gates.TableOf(view), gates.InlineTokens()}
	})
	doc := status.NewDocument(c.board.List(nil), Controller, nil, time.Now())
	for _, o := range doc.Objects {
		if out.concerns(o) {
			out.Conditions = append(out.Conditions, o)
		}
	}
	return out
}

func (c *core) rows(key string) (rows []graph.Explanation) {
	c.translation.Read(func(t *translator.Translator) { rows = t.ExplainRow(key) })
	return rows
}

// Explain adds to core.Explain the picks that the request would get.
func (a *App) Explain(q translator.Query) Explained {
	out := a.core.Explain(q)
	out.Picks = map[string]json.RawMessage{}
	if a.set != nil {
		out.Silent = a.set.Silent()
	}
	header := q.Header.Clone()
	if q.Model != "" {
		header.Set("X-Gateway-Model-Name", q.Model)
	}
	a.picks(out.Picks, out.Backends, header)
	a.addServers(&out)
	return out
}

func (a *App) picks(into map[string]json.RawMessage, backends []translator.BackendView, h http.Header) {
	for _, b := range backends {
		if b.Pool != "" {
			header := flat(h)
			header["x-penstock-subset"] = b.Subset
			header["x-penstock-spill"] = strings.Join(b.Spill, ",")
			if raw, err := json.Marshal(a.picker.Explain(b.Pool, header)); err == nil {
				into[b.Pool] = raw
			}
		}
		for _, hop := range b.Hops {
			a.picks(into, hop.Backends, h)
		}
	}
}

// TokenHeader has the token of the explained request. The URL does not have it, because URLs are
// often logged.
const TokenHeader = "X-Penstock-Explain-Token"

func (a *App) explain(w http.ResponseWriter, r *http.Request) {
	args := r.URL.Query()
	q, err := ParseQuery(args.Get("url"), args.Get("method"), args["header"])
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q.Model, q.Gateway, q.Key = args.Get("model"), args.Get("gateway"), args.Get("key")
	q.Token = r.Header.Get(TokenHeader)
	debug.WriteJSON(w, a.Explain(q))
}

// ParseQuery reads a user's URL, method and headers. The default method is POST for APIs with
// prompts.
func ParseQuery(text, method string, headers []string) (translator.Query, error) {
	q, err := translator.ParseURL(text)
	if err != nil {
		return q, err
	}
	if path, _, _ := strings.Cut(q.Target, "?"); method == "" && request.KindOf([]byte(path)) != request.OtherKind {
		method = http.MethodPost
	}
	q.Method = method
	for _, h := range headers {
		AddHeader(q.Header, h)
	}
	return q, nil
}

// FoundPicks is the answer of /debug/picks?last=N and /debug/picks?request=ID.
type FoundPicks struct {
	Picks []*picker.Record `json:"picks"` // of all processes, the newest first
	// Silent is how many other processes have not answered. Their picks are missing.
	Silent int `json:"silent,omitempty"`
	// Unknown means that the requested pool has no pick anywhere, and is unknown to this process.
	// Pools lists the first pools of this process; More counts the others.
	Unknown bool     `json:"unknown,omitempty"`
	Pools   []string `json:"pools,omitempty"`
	More    int      `json:"more,omitempty"`
}

const maxNamed = 20

func (f *FoundPicks) find(pool string, pools []string) {
	if pool == "" || len(f.Picks) > 0 || slices.ContainsFunc(pools, picker.Picks{Pool: pool}.Of) {
		return
	}
	f.Unknown, f.Pools = true, pools[:min(len(pools), maxNamed)]
	f.More = len(pools) - len(f.Pools)
}

func (a *App) picksPage(w http.ResponseWriter, r *http.Request) {
	args := r.URL.Query()
	if !args.Has("last") && !args.Has("request") {
		a.picker.ServeHTTP(w, r)
		return
	}
	q := picker.Picks{Pool: args.Get("pool"), Request: args.Get("request")}
	if text := args.Get("last"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			http.Error(w, "last must be a number of picks, 1 or more", http.StatusBadRequest)
			return
		}
		q.Last = n
	}
	var out FoundPicks
	out.Picks, out.Silent = a.asked.Picks(r.Context(), q)
	out.find(q.Pool, a.picker.Pools())
	debug.WriteJSON(w, out)
}

// AddHeader adds "name: value" or "name=value" to a header.
func AddHeader(h http.Header, line string) {
	i := strings.IndexAny(line, ":=")
	if i < 0 {
		i = len(line)
	}
	h.Add(strings.TrimSpace(line[:i]), strings.TrimSpace(strings.TrimLeft(line[i:], ":=")))
}

func flat(h http.Header) map[string]string {
	out := map[string]string{}
	for name, values := range h {
		out[strings.ToLower(name)] = strings.Join(values, ",")
	}
	return out
}

func (e *Explained) concerns(o status.Object) bool {
	if e.Route != nil && o.Ref == *e.Route || o.Kind == "Gateway" && o.Key() == e.Gateway {
		return true
	}
	kind := o.Kind
	if kind == store.ModelDeployments.Kind() { // the pool has the deployment's name
		kind = store.InferencePools.Kind()
	}
	return slices.ContainsFunc(e.Backends, func(b translator.BackendView) bool {
		return b.Backend == store.TargetKey(kind, o.Namespace, o.Name)
	})
}
