package gatewayapi

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/model"
)

// Contest decides which of a listener's routes gets a host that only one of them can have. It
// returns the losses of the other routes.
func Contest(gateway, listener string, candidates []*model.Candidate) []model.Loss {
	var all []contender
	for _, c := range candidates {
		for _, parent := range c.Parents {
			i := slices.IndexFunc(parent.Places, func(p model.Place) bool {
				return p.Gateway == gateway && p.Listener == listener
			})
			if i >= 0 {
				all = append(all, contender{c, parent.Places[i]})
				break
			}
		}
	}
	slices.SortFunc(all, contender.compare)
	if len(all) > 0 && all[0].place.Stream {
		return streamLosses(all)
	}
	return kindLosses(all)
}

type contender struct {
	from  *model.Candidate
	place model.Place
}

func (c contender) compare(o contender) int {
	return cmp.Or(
		cmp.Compare(c.from.Created, o.from.Created),
		strings.Compare(c.from.Route.Key(), o.from.Route.Key()),
		c.from.Route.Compare(o.from.Route),
	)
}

func (c contender) loss(host string, winner report.Ref) model.Loss {
	return model.Loss{Route: c.from.Route, Gateway: c.place.Gateway, Listener: c.place.Listener, Host: host,
		Winner: winner}
}

// Each host goes to the route with the most specific hostname for it. Of equally specific routes,
// the first gets the host. All routes are accepted (conformance: TCPRouteMultipleRoutesAttachment,
// UDPRouteMultipleRoutesAttachment).
func streamLosses(all []contender) (losses []model.Loss) {
	byHost := map[string][]contender{}
	for _, c := range all {
		for _, h := range c.place.Hosts {
			byHost[h] = append(byHost[h], c)
		}
	}
	for _, h := range slices.Sorted(maps.Keys(byHost)) {
		list := byHost[h]
		slices.SortStableFunc(list, func(a, b contender) int {
			return bySpecificity(mostSpecific(a.from.Hostnames, h), mostSpecific(b.from.Hostnames, h))
		})
		for _, c := range list[1:] {
			losses = append(losses, c.loss(h, list[0].from.Route))
		}
	}
	return losses
}

func kindLosses(all []contender) (losses []model.Loss) {
	taken := map[string]*claims{}
	for _, kind := range []string{"HTTPRoute", "GRPCRoute"} {
		taken[kind] = &claims{exact: map[string]report.Ref{}, below: map[string]report.Ref{}}
	}
	others := map[string]string{"HTTPRoute": "GRPCRoute", "GRPCRoute": "HTTPRoute"}
	for _, c := range all {
		if winner, met := taken[others[c.from.Route.Kind]].meets(c.place.Hosts); met {
			losses = append(losses, c.loss("", winner))
			continue
		}
		for _, h := range c.place.Hosts {
			taken[c.from.Route.Kind].add(h, c.from.Route)
		}
	}
	return losses
}

type claims struct {
	exact map[string]report.Ref
	below map[string]report.Ref
}

func (c *claims) add(host string, owner report.Ref) {
	if _, ok := c.exact[host]; !ok {
		c.exact[host] = owner
	}
	for _, wider := range Covering(host) {
		if _, ok := c.below[wider]; !ok {
			c.below[wider] = owner
		}
	}
}

func (c *claims) meets(hosts []string) (report.Ref, bool) {
	for _, h := range hosts {
		if owner, ok := c.below[h]; ok {
			return owner, true
		}
		for _, wider := range Covering(h) {
			if owner, ok := c.exact[wider]; ok {
				return owner, true
			}
		}
	}
	return report.Ref{}, false
}
