package translator

import (
	"slices"

	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/model"
)

// way is how a client connects, by its URL's scheme.
type way struct {
	name     string // of the listener's protocol, for people
	requests bool   // it sends requests; else it wants a connection handed on
	grpc     bool
	tls      bool
}

func wayOf(scheme string) way {
	switch scheme {
	case "https":
		return way{name: "HTTPS", requests: true, tls: true}
	case "grpc":
		return way{name: "HTTP", requests: true, grpc: true}
	case "grpcs":
		return way{name: "HTTPS", requests: true, grpc: true, tls: true}
	case "tls":
		return way{name: "TLS", tls: true}
	case "tcp":
		return way{name: "TCP"}
	}
	return way{name: "HTTP", requests: true}
}

// meets reports whether a listener serves clients of this way.
func (w way) meets(l *model.Listener) bool {
	return l.ByName() == w.tls && (w.tls || l.Stream() != w.requests)
}

// explainStream follows a connection to a listener that hands it on. False if the port takes requests, or has no listener for the name.
func (t *Translator) explainStream(r *graph.Reader, e *Explanation, way way, g *model.Gateway, p model.Port, name string) bool {
	if !way.tls && way.requests {
		return false
	}
	_, rows := t.tables.streamsByPort.Each(r, portKey{g.Ref.Key(), p.Number})
	byHost := map[string]model.Stream{}
	for _, s := range rows {
		host := s.ServerName
		if host == "" {
			host = "*"
		}
		byHost[host] = s
	}
	for _, host := range gatewayapi.Covering(name) { // the most specific server name, as Envoy does
		s, ok := byHost[host]
		if !ok {
			if slices.ContainsFunc(p.Chains, func(c model.Chain) bool { return c.TLS && (c.ServerName == host || c.ServerName == "" && host == "*") }) {
				return false
			}
			continue
		}
		e.Gateway, e.Chain, e.Host, e.Method = g.Ref.Key(), s.Name, host, ""
		e.Listener = streamListener(g, p.Number, host)
		t.explainShares(r, e, s)
		return true
	}
	return false
}

func (t *Translator) explainShares(r *graph.Reader, e *Explanation, s model.Stream) {
	if len(s.Owners) == 0 {
		e.Answer = "closed: no route takes these connections"
		return
	}
	e.Route, e.Match = &s.Owners[0], "any connection"
	if s.TLS {
		e.Match = "server name " + e.Host
	}
	switch {
	case len(s.Backends) == 0:
		e.Answer = "closed: no backend has a weight above zero"
	case len(s.Secrets) > 0:
		e.Answer = "passed on, without TLS, which ends here"
	case s.TLS:
		e.Answer = "passed on as it is, TLS included"
	default:
		e.Answer = "passed on"
	}
	e.Backends = t.backendViews(r, s.Backends, "closed: the backend could not be resolved")
}

// streamListener is the key of the listener that a host of a port belongs to.
func streamListener(g *model.Gateway, port uint16, host string) string {
	for _, want := range gatewayapi.Covering(host) {
		for _, l := range g.Listeners {
			if l.Port == port && l.Stream() && l.Chain != "" && l.Hostname == want {
				return l.Key
			}
		}
	}
	return ""
}
