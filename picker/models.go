package picker

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/authz"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/models"
)

const resultModels = "models" // 200: the models of the route's pools

const maxRoutePools = 64

func asksForModels(h *extproc.Message) bool {
	path := h.Header(":path")
	if i := bytes.IndexByte(path, '?'); i >= 0 {
		path = path[:i]
	}
	if !bytes.HasSuffix(path, []byte("/v1/models")) {
		return false
	}
	method := string(h.Header(":method"))
	return method == http.MethodGet || method == http.MethodHead
}

func listsAlone(r *extproc.Request) bool {
	return r.Bodyless && len(r.Pools) > 0 && strings.HasSuffix(r.Pool, "@") && asksForModels(r.Headers)
}

// keys returns the request's restricted API keys, or "". KeysHeader counts only from a Gateway of
// this cluster: other clients may set the header themselves.
func keys(r *extproc.Request) string {
	if !r.Reported() || r.Member != "" {
		return ""
	}
	return string(r.Headers.Header(authz.KeysHeader))
}

// listModels answers a request for the list of models with the models of all pools of its route.
// A restricted API key sees only permitted models, and such a request never goes to a server.
// listModels returns false without an answer, for example if no server reports a model.
func (k *pick) listModels() bool {
	p, r, pool := k.picker, k.request, k.pool
	restricted := keys(r)
	if !asksForModels(r.Headers) || restricted == "" && (!r.Bodyless || len(r.Pools) == 0 && len(r.Spill) > 0 ||
		pool == nil && !listsAlone(r)) {
		return false
	}
	permits := func(pool, model string) bool {
		return restricted == "" || p.config.Permits != nil && p.config.Permits(restricted, pool, model)
	}
	var asked []models.Pool
	var deployed []models.Model
	add := func(id objectid.Target, next models.Pool) {
		if id.Member != "" { // API keys permit whole imports, not single clusters
			id = objectid.Target{Pool: id.Pool, Import: true}
		}
		if !permits(id.String(), "") {
			return
		}
		same := func(m models.Pool) bool {
			return m.Name == next.Name && m.Subset == next.Subset && m.Host == next.Host && m.Path == next.Path
		}
		if (len(next.Servers) > 0 || next.Picker != nil) && !slices.ContainsFunc(asked, same) {
			asked = append(asked, next)
		}
	}
	if pool != nil && !pool.Gateways && pool.Clusters == nil {
		add(pool.ID, k.listedBy(pool, pool.servers(r.Subset)))
		deployed = p.addDeployed(deployed, pool, permits)
	}
	for _, entry := range r.Pools[:min(len(r.Pools), maxRoutePools)] {
		name, how := rulePool(entry)
		switch other := p.pool(name); {
		case other == nil || !p.allowed(r.Gateway, other.ID):
		case other.Gateways:
			add(other.ID, other.gateways(r.Headers, how))
		default:
			add(other.ID, k.listedBy(other, other.servers(how.Get(poolSubset))))
			deployed = p.addDeployed(deployed, other, permits)
		}
	}
	list := slices.DeleteFunc(slices.Concat(p.asks.models.List(k.ctx, asked), deployed),
		func(m models.Model) bool { return !permits("", m.ID) })
	if len(list) == 0 && restricted == "" {
		return false
	}
	if pool != nil {
		pool.counters.count(resultModels, time.Since(k.started))
	}
	k.decide(extproc.Answer{Status: http.StatusOK, Body: models.Encode(list)}, "")
	return true
}

// addDeployed adds the model of a pool whose servers Config.OnDemand starts. The list may lack this
// model even if a server runs: the server may report another name, or none.
func (p *Picker) addDeployed(list []models.Model, pool *pool, permits func(pool, model string) bool) []models.Model {
	if p.config.OnDemand == nil || !permits(pool.ID.String(), "") {
		return list
	}
	if demand, ok := p.config.OnDemand.Demand(pool.ID); ok && demand.Model != "" {
		list = append(list, models.Model{ID: demand.Model, Object: "model", OwnedBy: "penstock"})
	}
	return list
}

func (k *pick) listedBy(pool *pool, listed models.Pool) models.Pool {
	if pool.remote == nil || pool.ID.Member == "" {
		return listed
	}
	listed.Picker = func(ctx context.Context) ([]byte, error) {
		answer, err := pool.remote.Ask(ctx, k.request)
		if answer.Track != nil {
			answer.Track.End()
		}
		if err != nil {
			return nil, err
		}
		var reply extprocv3.ImmediateResponse
		if err := proto.Unmarshal(answer.Immediate, &reply); err != nil {
			return nil, err
		}
		if answer.Status != http.StatusOK {
			return nil, errors.New("its picker has no list")
		}
		return reply.GetBody(), nil
	}
	return listed
}

const (
	poolSubset = "subset" // label selector for a part of the pool's servers
	// The route rewrites requests to gateways: new host, new path, or a path prefix and its
	// replacement.
	poolHost, poolPath, poolPrefix, poolReplace = "host", "path", "prefix", "replace"
)

func rulePool(entry string) (name string, how url.Values) {
	text, query, _ := strings.Cut(entry, "?")
	name, err := url.PathUnescape(text)
	how, wrong := url.ParseQuery(query)
	if err != nil || wrong != nil {
		return "", nil
	}
	return name, how
}

// Limits of the host and path of requests to gateways, in bytes.
const maxHost, maxPath = 255, 1024

// gateways returns the gateways of a pool to query for models. A request that has passed another
// Penstock gateway gets none: two gateways could query each other endlessly.
func (pool *pool) gateways(h *extproc.Message, how url.Values) models.Pool {
	out := models.Pool{Name: pool.Name, Protocol: pool.Metrics.Protocol, Host: string(h.Header(":authority"))}
	out.Path, _, _ = strings.Cut(string(h.Header(":path")), "?")
	if host := how.Get(poolHost); host != "" {
		out.Host = host
	}
	switch {
	case how.Has(poolPath):
		out.Path = how.Get(poolPath)
	case how.Has(poolPrefix):
		rest, ok := strings.CutPrefix(out.Path, how.Get(poolPrefix))
		if !ok {
			return models.Pool{}
		}
		out.Path = how.Get(poolReplace) + "/" + strings.TrimPrefix(rest, "/")
	}
	if out.Host == "" || len(out.Host) > maxHost || len(out.Path) > maxPath || !strings.HasPrefix(out.Path, "/") ||
		bytes.Contains(h.Header("via"), []byte("penstock")) {
		return models.Pool{}
	}
	for _, s := range pool.Servers {
		out.Servers = append(out.Servers, models.Server{Addr: s.Addr, Cleartext: s.Cleartext})
	}
	return out
}

func (pool *pool) servers(subset string) models.Pool {
	pool.snapshot.MarkUsed() // keeps the metrics pages read: they list loaded adapters
	out := models.Pool{Name: pool.Name, Subset: subset, Protocol: pool.Metrics.Protocol}
	selected := func(*endpoint.Endpoint) bool { return true }
	if subset != "" {
		selected = pool.selected(subset, nil)
	}
	if pool.rules != nil {
		for name, rule := range pool.rules.models.Named {
			if len(rule.Targets) > 0 {
				out.Names = append(out.Names, name)
			}
		}
	}
	for i := range pool.snapshot.Endpoints {
		e := &pool.snapshot.Endpoints[i]
		if !selected(e) {
			continue
		}
		s := models.Server{Addr: e.Addr}
		if a := e.State().Adapters; a != nil {
			s.Adapters = slices.Concat(a.Running, a.Waiting)
		}
		out.Servers = append(out.Servers, s)
	}
	matches := func(map[string]string) bool { return true }
	if subset != "" && len(pool.Servers) > 0 {
		matches = selects(subset)
	}
	for _, s := range pool.Servers {
		if matches(s.Labels) {
			out.Servers = append(out.Servers, models.Server{Addr: s.Addr, Cleartext: s.Cleartext})
		}
	}
	return out
}

// MaxServers bounds Pool.Servers.
const MaxServers = 64
