package extproc

import (
	"slices"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
)

var routingHeaders = endpointpicker.RoutingHeaders()

// route adds the answer's headers to the request. It removes the client's own routing headers,
// which could make a server send the request to any address. A gateway that Penstock configures
// has already removed these.
func (x *exchange) route(a *Answer) {
	x.change.set, x.change.remote = a.Headers, a.Changes
	m := x.request.Headers
	if m == nil || !m.routing || x.request.Reported() {
		return
	}
	for key := range m.Each {
		i := slices.Index(routingHeaders, string(key))
		if i < 0 || slices.Contains(x.change.remove, routingHeaders[i]) || a.Changes.sets(routingHeaders[i]) ||
			slices.ContainsFunc(a.Headers, func(h Header) bool { return h.Name == routingHeaders[i] }) {
			continue
		}
		x.change.remove = append(x.change.remove, routingHeaders[i])
	}
}
