package picker

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/models"
	"github.com/penstock-project/penstock/picker/request"
)

// restrict determines the allowed destinations of a request: by the gateway's subset hint, the
// route's subset, and the spill targets that Envoys have. For model servers it also sets the
// endpoints, the servers that lack the model, and the query. If no known list of models has the
// request's model, restrict waits up to 400 ms for newer lists. It ends a pick for a pool whose
// requests go to gateways of another cluster.
func restrict(k *pick) { k.target.restrict(k) }

func (servers) restrict(k *pick) {
	pool, r := k.pool, k.request
	pool.snapshot.MarkUsed()
	k.endpoints, k.sampled = pool.snapshot.Endpoints, pool.history.due(k.started, len(pool.snapshot.Endpoints))
	entries, restricted := k.picker.config.Protocol.subset(r.Headers)
	if k.restricted = restricted; restricted {
		k.allowed = subset(entries) // the hint also excludes spill targets
	} else {
		k.spillTo = pool.spill(r.Spill)
		if hop := k.hopToKeeper(k.spillTo); hop != "" {
			k.follows = followsKept
			k.decide(listed([]string{hop}, retries(r)), resultSpilled)
			return
		}
	}
	if r.Subset != "" {
		k.allowed, k.restricted = pool.selected(r.Subset, k.allowed), true
	}
	k.holder = endpoint.Holder{Gateway: r.Gateway, Pool: pool.Name}
	k.query = pool.scheduled(r, k.started)
	k.working = workings.Get().(*working)
	if model := servedModel(&r.Facts); model != "" && k.picker.asks.runs.Load() && hasModel(r.Facts.Kind) {
		k.lacking = pool.holders.Lacking(k.ctx, model, time.Now())
	}
}

func hasModel(k request.Kind) bool { return k != request.OtherKind && k != request.Rendered }

func (pool *pool) setHolders() {
	listed := models.Pool{Name: pool.Name, Protocol: pool.Metrics.Protocol}
	if !pool.Gateways && pool.Clusters == nil && pool.Relay == nil {
		for i := range pool.snapshot.Endpoints {
			listed.Servers = append(listed.Servers, models.Server{Addr: pool.snapshot.Endpoints[i].Addr})
		}
	}
	pool.holders.Set(listed)
}

func (p *Picker) showsModel(tag endpoint.Tag, pool string, e *accesslog.Entry, now time.Time) {
	if tag.Asks == "" || e.Status != http.StatusNotFound && (e.Status < 200 || e.Status > 299) {
		return
	}
	from := p.pools.now.Load().byName[pool]
	addr, err := netip.ParseAddrPort(e.Served)
	if from == nil || err != nil {
		return
	}
	if e.Status == http.StatusNotFound {
		from.holders.NotFound(tag.Asks, addr, now)
	} else {
		from.holders.Answered(tag.Asks, addr, now)
	}
}

// Lacks counts the servers that a pick excludes because they lack the model.
type Lacks struct {
	Unlisted int `json:"unlisted,omitempty"`
	NotFound int `json:"notFound,omitempty"`
}

func restrictedBy(r *Record) string {
	switch l := r.Lacks; {
	case l == nil:
		return ""
	case l.NotFound == 0:
		return fmt.Sprintf("%s left out: GET /v1/models does not list the model", several(l.Unlisted, "server"))
	case l.Unlisted == 0:
		return fmt.Sprintf("%s left out: 404 for the model", several(l.NotFound, "server"))
	default:
		return fmt.Sprintf(
			"%d servers left out: GET /v1/models of %d does not list the model, 404 for the model from %d",
			l.Unlisted+l.NotFound, l.Unlisted, l.NotFound)
	}
}

// subset returns a filter for the endpoints in a subset hint. The entry "ip:port" allows one
// endpoint, "ip" all endpoints at an address.
func subset(entries []string) func(*endpoint.Endpoint) bool {
	addrs := map[netip.AddrPort]bool{}
	hosts := map[netip.Addr]bool{}
	for _, text := range entries {
		if addr, err := netip.ParseAddrPort(text); err == nil {
			addrs[addr] = true
		} else if host, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
			hosts[host] = true
		}
	}
	return func(e *endpoint.Endpoint) bool { return addrs[e.Addr] || hosts[e.Addr.Addr()] }
}
