package translator

import (
	"slices"

	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/model"
)

type way struct {
	name     string
	requests bool
	grpc     bool
	tls      bool
	udp      bool
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
	case "udp":
		return way{name: "UDP", udp: true}
	}
	return way{name: "HTTP", requests: true}
}

func (w way) meets(l *model.Listener) bool {
	return l.ByName() == w.tls && l.Datagrams() == w.udp && (w.tls || l.Stream() != w.requests)
}

// explainStream explains a connection or datagram. It returns false if the port takes HTTP
// requests, or has no listener for the name.
func (t *Translator) explainStream(r *graph.Reader, e *Explanation, way way, g *model.Gateway, p model.Port,
	name string) bool {
	if !way.tls && way.requests {
		return false
	}
	_, rows := t.tables.streamsByPort.Each(r, portKey{g.Ref.Key(), p.Socket()})
	byHost := map[string]model.Stream{}
	for _, s := range rows {
		host := s.ServerName
		if host == "" {
			host = "*"
		}
		byHost[host] = s
	}
	for _, host := range gatewayapi.Covering(name) { // the most specific server name wins, as in Envoy
		s, ok := byHost[host]
		if !ok {
			if slices.ContainsFunc(p.Chains, func(c model.Chain) bool {
				return c.TLS && (c.ServerName == host || c.ServerName == "" && host == "*")
			}) {
				return false
			}
			continue
		}
		e.Gateway, e.Chain, e.Host, e.Method = g.Ref.Key(), s.Name, host, ""
		e.Listener = streamListener(g, p.Socket(), host)
		t.explainShares(r, e, way, s)
		return true
	}
	return false
}

func (t *Translator) explainShares(r *graph.Reader, e *Explanation, way way, s model.Stream) {
	what, ends := "connection", "closed"
	if way.udp {
		what, ends = "datagram", "dropped"
	}
	if len(s.Owners) == 0 {
		e.Answer = ends + ": no route takes these " + what + "s"
		return
	}
	e.Route, e.Match = &s.Owners[0], "any "+what
	if s.TLS {
		e.Match = "server name " + e.Host
	}
	switch {
	case len(s.Backends) == 0:
		e.Answer = ends + ": no backend has a weight above zero"
	case len(s.Secrets) > 0:
		e.Answer = "passed on, without TLS, which ends here"
	case s.TLS:
		e.Answer = "passed on as it is, TLS included"
	default:
		e.Answer = "passed on"
	}
	e.Backends = t.backendViews(r, s.Backends, ends+": the backend could not be resolved")
}

func streamListener(g *model.Gateway, socket model.Socket, host string) string {
	for _, want := range gatewayapi.Covering(host) {
		for _, l := range g.Listeners {
			if l.Socket() == socket && l.Stream() && l.Chain != "" && l.Hostname == want {
				return l.Key
			}
		}
	}
	return ""
}
