package translator

import (
	"cmp"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/model"
)

// Both tables have a row for each Gateway and namespace. A changed route recomputes only its row,
// except the first and last route of a namespace at a Gateway.
type expressionTables struct {
	tenants  *graph.Table[tenantKey, tenant]
	overruns *graph.Table[tenantKey, []model.Overrun]

	attachmentsByTenant      *graph.Index[string, *model.Attachment, tenantKey]
	attachmentsByExpressions *graph.Index[string, *model.Attachment, tenantKey]
	// attachmentsByWide has, by Gateway, the routes with regular expressions and a wildcard host.
	attachmentsByWide *graph.Index[string, *model.Attachment, string]
	tenantsByGateway  *graph.Index[tenantKey, tenant, string]
	overrunsByRoute   *graph.Index[tenantKey, []model.Overrun, string]
}

type tenantKey struct{ gateway, namespace string }

func (k tenantKey) compare(o tenantKey) int {
	return cmp.Or(strings.Compare(k.gateway, o.gateway), strings.Compare(k.namespace, o.namespace))
}

type tenant struct {
	hosts int // 0 at a Gateway where no wildcard host has regular expressions
}

func (t *tables) declareExpressions() {
	t.indexTenants()
	t.tenants = graph.Declare(t.engine, graph.Table[tenantKey, tenant]{
		Name:    "tenants",
		Order:   tenantKey.compare,
		Sources: []graph.Source[tenantKey]{t.attachmentsByTenant},
		Compute: func(r *graph.Reader, key tenantKey) (tenant, bool) {
			if n, _ := t.attachmentsByWide.Each(r, key.gateway); n == 0 {
				return tenant{}, true
			}
			hosts := 0
			_, rows := t.attachmentsByTenant.Each(r, key)
			for _, a := range rows {
				hosts += gatewayapi.HostsOn(key.gateway, a)
			}
			return tenant{hosts}, true
		},
	})
	t.tenantsByGateway = graph.NewIndex(t.tenants, "gateway",
		func(key tenantKey, _ tenant) []string { return []string{key.gateway} })
	t.overruns = graph.Declare(t.engine, graph.Table[tenantKey, []model.Overrun]{
		Name:    "overruns",
		Order:   tenantKey.compare,
		Sources: []graph.Source[tenantKey]{t.attachmentsByExpressions},
		Compute: func(r *graph.Reader, key tenantKey) ([]model.Overrun, bool) {
			namespaces, _ := t.tenantsByGateway.Each(r, key.gateway)
			var attached []*model.Attachment
			for _, row := range t.attachmentsByExpressions.By(r, key) {
				attached = append(attached, row.Value)
			}
			over := gatewayapi.Overruns(key.gateway, namespaces, attached)
			return over, len(over) > 0
		},
	})
	t.overrunsByRoute = graph.NewIndex(t.overruns, "route", func(_ tenantKey, over []model.Overrun) (keys []string) {
		for _, o := range over {
			if len(keys) == 0 || keys[len(keys)-1] != o.Route {
				keys = append(keys, o.Route)
			}
		}
		return keys
	})
}

func (t *tables) indexTenants() {
	tenants := func(a *model.Attachment) (keys []tenantKey) {
		for _, gw := range gatewaysOf(a) {
			if gatewayapi.HostsOn(gw, a) > 0 {
				keys = append(keys, tenantKey{gw, a.Route.Namespace})
			}
		}
		return keys
	}
	t.attachmentsByTenant = graph.NewIndex(t.attachments, "tenant",
		func(_ string, a *model.Attachment) []tenantKey { return tenants(a) })
	t.attachmentsByExpressions = graph.NewIndex(t.attachments, "expressions",
		func(_ string, a *model.Attachment) []tenantKey {
			if !gatewayapi.HasExpressions(a) {
				return nil
			}
			return tenants(a)
		})
	t.attachmentsByWide = graph.NewIndex(t.attachments, "wideExpressions",
		func(_ string, a *model.Attachment) (gateways []string) {
			if !gatewayapi.HasExpressions(a) {
				return nil
			}
			for _, gw := range gatewaysOf(a) {
				if gatewayapi.HasWildcard(gw, a) {
					gateways = append(gateways, gw)
				}
			}
			return gateways
		})
}

func (t *tables) budget(r *graph.Reader, key hostKey, attached []*model.Attachment) gatewayapi.Budget {
	return gatewayapi.Budget{
		Over: func(a *model.Attachment, rule int) bool {
			over, _ := t.overruns.Get(r, tenantKey{key.gateway, a.Route.Namespace})
			route := store.TargetOf(a.Route)
			return slices.ContainsFunc(over, func(o model.Overrun) bool { return o.Route == route && o.Rule == rule })
		},
		Wider: t.widest(r, key, attached),
	}
}

// widest returns the limit for regular expressions that a virtual host gets from routes with wider
// hostnames. Each namespace with a route for the host itself contributes its share, divided by its
// number of hosts. The limit is the largest contribution, or zero.
func (t *tables) widest(r *graph.Reader, key hostKey, attached []*model.Attachment) (most model.Expressions) {
	own := func(a *model.Attachment) bool { return gatewayapi.HasHost(a, key.gateway, key.chain, key.host) }
	if !slices.ContainsFunc(attached, func(a *model.Attachment) bool {
		return gatewayapi.HasExpressions(a) && !own(a)
	}) {
		return most
	}
	namespaces, _ := t.tenantsByGateway.Each(r, key.gateway)
	share := gatewayapi.Share(namespaces)
	for _, a := range attached {
		row, ok := t.tenants.Get(r, tenantKey{key.gateway, a.Route.Namespace})
		if !ok || !own(a) {
			continue
		}
		hosts := uint32(max(1, row.hosts))
		most.Number, most.Size = max(most.Number, share.Number/hosts), max(most.Size, share.Size/hosts)
	}
	return most
}

func (t *tables) overrunsOf(r *graph.Reader, route string) (out []model.Overrun) {
	for _, row := range t.overrunsByRoute.By(r, route) {
		for _, o := range row.Value {
			if o.Route == route {
				out = append(out, o)
			}
		}
	}
	return out
}
