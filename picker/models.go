package picker

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/models"
)

const resultModels = "models" // 200: the list of the models of the route's pools

// maxRoutePools bounds the pools of a route whose models are listed.
const maxRoutePools = 64

// asksForModels reports whether a request without a body is one for the list of models.
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

// listModels answers a request for the list of models with those of all pools of its route. It returns false if no server reports any: the
// request is then picked for as any other.
//
// A gateway ignores our own responses for a pool that can spill (translator/envoy), except on the routes that it has for these requests, which
// name pools.
func (p *Picker) listModels(ctx context.Context, pool *pool, r *extproc.Request, started time.Time) (extproc.Answer, bool) {
	if !r.Bodyless || len(r.Pools) == 0 && len(r.Spill) > 0 || !asksForModels(r.Headers) {
		return extproc.Answer{}, false
	}
	asked := []models.Pool{pool.servers()}
	for _, name := range r.Pools[:min(len(r.Pools), maxRoutePools)] {
		other := p.pool(name)
		if other == nil || slices.ContainsFunc(asked, func(m models.Pool) bool { return m.Name == name }) || !p.allowed(r.Gateway, name) {
			continue
		}
		asked = append(asked, other.servers())
	}
	list := p.models.List(ctx, asked)
	if len(list) == 0 {
		return extproc.Answer{}, false
	}
	pool.counters.count(resultModels, time.Since(started))
	return extproc.Answer{Status: http.StatusOK, Body: models.Encode(list)}, true
}

// servers are those of a pool that can be asked for their models.
func (pool *pool) servers() models.Pool {
	pool.snapshot.MarkUsed() // so that pages show which adapters are loaded
	out := models.Pool{Name: pool.Name, TLS: pool.Metrics.TLS}
	if pool.rules != nil {
		for name, rule := range pool.rules.of.Named {
			if len(rule.Targets) > 0 {
				out.Names = append(out.Names, name)
			}
		}
	}
	for i := range pool.snapshot.Endpoints {
		e := &pool.snapshot.Endpoints[i]
		s := models.Server{Addr: e.Addr}
		if a := e.State().Adapters; a != nil {
			s.Adapters = slices.Concat(a.Running, a.Waiting)
		}
		out.Servers = append(out.Servers, s)
	}
	for _, addr := range pool.Servers {
		out.Servers = append(out.Servers, models.Server{Addr: addr})
	}
	return out
}

// MaxServers bounds Pool.Servers.
const MaxServers = 64
