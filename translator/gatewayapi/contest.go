package gatewayapi

import (
	"cmp"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/report"
	"github.com/penstock-project/penstock/translator/model"
)

// Contest decides between the candidates of one listener that cannot have the same hosts, older ones first, then by
// name; what it returns are the losses.
//
// HTTPRoutes and GRPCRoutes do not mix: of two whose hostnames intersect one gets the listener, and the other is not
// accepted there (Gateway API, GRPCRouteSpec.Hostnames). Of routes of connections one has a host, the others keep what
// they have beside it, and all are accepted (the conformance suite asks for it: TCPRouteMultipleRoutesAttachment).
func Contest(gateway, listener string, candidates []*model.Candidate) []model.Loss {
	type entry struct {
		from  *model.Candidate
		place model.Place
	}
	var all []entry
	for _, c := range candidates {
		for _, parent := range c.Parents {
			i := slices.IndexFunc(parent.Places, func(p model.Place) bool { return p.Gateway == gateway && p.Listener == listener })
			if i >= 0 {
				all = append(all, entry{c, parent.Places[i]})
				break
			}
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.from.Created, b.from.Created), strings.Compare(a.from.Route.Key(), b.from.Route.Key()), a.from.Route.Compare(b.from.Route))
	})
	var losses []model.Loss
	taken := map[string]*claims{} // by kind of route
	for _, e := range all {
		loss := model.Loss{Route: e.from.Route, Gateway: gateway, Listener: listener}
		kind := e.from.Route.Kind
		if e.place.Stream {
			kind = "" // routes of all kinds together
		}
		if taken[kind] == nil {
			taken[kind] = &claims{exact: map[string]report.Ref{}, below: map[string]report.Ref{}}
		}
		if e.place.Stream {
			for _, h := range e.place.Hosts {
				if winner, ok := taken[kind].exact[h]; ok {
					loss.Host, loss.Winner = h, winner
					losses = append(losses, loss)
					continue
				}
				taken[kind].add(h, e.from.Route)
			}
			continue
		}
		lost := false
		for other, c := range taken {
			if winner, met := c.meets(e.place.Hosts); other != kind && met {
				loss.Winner, lost = winner, true
				break
			}
		}
		if lost {
			losses = append(losses, loss)
			continue
		}
		for _, h := range e.place.Hosts {
			taken[kind].add(h, e.from.Route)
		}
	}
	return losses
}

// claims are hosts that are taken, by whom first.
type claims struct {
	exact map[string]report.Ref
	below map[string]report.Ref // hosts that cover one that is taken
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

// meets finds who has a host that intersects with one of hosts.
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
