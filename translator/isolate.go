package translator

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/model"
)

// encodeHost encodes a virtual host. If a bug prevents the encoding of a route, the route of the
// same name in last replaces it or, without one, an answer 500. Without a replacement, other routes
// would take its requests. last may be nil.
func encodeHost(vh, last *model.VirtualHost) virtualHost {
	enc, err := tryHost(vh)
	if err == nil {
		return virtualHost{model: vh, encoded: enc}
	}
	out := virtualHost{err: err}
	out.model, out.at = isolate(vh, last)
	var also error
	if out.encoded, also = tryHost(out.model); also != nil { // the cause is not a single route
		out.model = alone(vh, shut(model.Route{Match: anything, Owner: vh.Owners[0]}))
		out.encoded, also = tryHost(out.model)
	}
	out.err = errors.Join(err, also)
	return out
}

// isolate replaces the routes that cannot be encoded. If even a route's match cannot be encoded,
// the host answers 500 to requests that no other route takes.
func isolate(vh, last *model.VirtualHost) (*model.VirtualHost, []report.Ref) {
	out, rest := *vh, false
	out.Routes = make([]model.Route, 0, len(vh.Routes)+1)
	var at []report.Ref
	for _, route := range vh.Routes {
		if encodes(vh, route) {
			out.Routes = append(out.Routes, route)
			continue
		}
		at = append(at, route.Owner)
		if before, ok := routeNamed(last, route.Name); ok && encodes(vh, before) {
			if len(before.Gates) == 0 {
				before.Reaches = []string{model.AnythingElse}
			}
			// The former route gets the current AccessPolicies.
			before.Gates, before.ByModel = route.Gates, route.ByModel
			out.Routes = append(out.Routes, before)
		} else if closed := shut(route); encodes(vh, closed) {
			out.Routes = append(out.Routes, closed)
		} else {
			rest = true
		}
	}
	if rest {
		out.Routes = append(out.Routes, shut(model.Route{Match: anything, Owner: at[0]}))
	}
	slices.SortFunc(at, report.Ref.Compare)
	return &out, slices.Compact(at)
}

var anything = model.Match{PathKind: model.PathPrefix, Path: "/"}

func shut(route model.Route) model.Route {
	if route.Name == "" {
		route.Name = "invalid"
	}
	route.Action = &model.Action{
		Direct: &model.Direct{Status: http.StatusInternalServerError,
			Body: "Envoy rejects this route: see its conditions."},
	}
	return route
}

func routeNamed(vh *model.VirtualHost, name string) (model.Route, bool) {
	if vh == nil {
		return model.Route{}, false
	}
	i := slices.IndexFunc(vh.Routes, func(r model.Route) bool { return r.Name == name })
	if i < 0 {
		return model.Route{}, false
	}
	return vh.Routes[i], true
}

func alone(vh *model.VirtualHost, route model.Route) *model.VirtualHost {
	out := *vh
	out.Routes = []model.Route{route}
	return &out
}

func encodes(vh *model.VirtualHost, route model.Route) bool {
	_, err := tryHost(alone(vh, route))
	return err == nil
}

func tryHost(vh *model.VirtualHost) (enc *envoy.Encoded, err error) {
	defer func() {
		if v := recover(); v != nil {
			enc, err = nil, fmt.Errorf("virtual host %s of %s: panic: %v", vh.Host, vh.Chain, v)
		}
	}()
	return envoy.VirtualHost(vh)
}

// recoverHost computes the virtual host without the routes that make its computation panic.
func (t *tables) recoverHost(r *graph.Reader, key hostKey, last virtualHost, _ bool) (virtualHost, bool) {
	g, ok := t.gateways.Get(r, key.gateway)
	if !ok {
		return virtualHost{}, false
	}
	var at []report.Ref
	attached := t.attachedTo(r, key)
	budget := t.budget(r, key, attached)
	attached = slices.DeleteFunc(attached, func(a *model.Attachment) bool {
		panics := attempt(func() { gatewayapi.VirtualHost(g, key.chain, key.host, []*model.Attachment{a}, budget) }) !=
			nil
		if panics {
			at = append(at, a.Route)
		}
		return panics
	})
	vh := gatewayapi.VirtualHost(g, key.chain, key.host, attached, budget)
	if vh == nil {
		return virtualHost{}, false
	}
	t.gate(r, vh)
	out := encodeHost(vh, last.model)
	out.at = append(at, out.at...)
	if out.encoded != nil {
		out.err = nil
	}
	return out, true
}

func attempt(f func()) (panicked any) {
	defer func() { panicked = recover() }()
	f()
	return nil
}
