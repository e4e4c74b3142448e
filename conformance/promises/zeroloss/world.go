package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// world is the configuration. Changes edit it; render writes it as YAML.
type world struct {
	gateway  gateway
	fleets   map[string]*fleet
	pools    map[string]*pool
	services map[string]string // fleets, by the Service's name
	imports  map[string]*imported
	routes   map[string]*route
	secrets  map[string]*secret
	names    int

	externalPort int // port of the external picker, which picks from externalFleet
	newServer    func(fleet string) (*server, error)
	newSecret    func(host string) *secret

	// These fields describe the work for the current change, besides writing files.
	late    []*server // servers that serve some time after they are in the files
	stopped []*server // servers that left the files
	retired []string  // hosts that leave the files once their requests have ended
}

const externalFleet = "f0"

type gateway struct {
	port, tlsPort, extraPort int
	hostname                 string // host name of the cleartext listener: "" or "*.test"
	secure                   map[string]*listener
	extra                    bool
}

// listener is an HTTPS listener. It becomes a filter chain in Envoy.
type listener struct{ host, secret string }

type secret struct{ host, cert, key string }

type fleet struct {
	name    string
	host    string // address in the files of ModelServers; "" means 127.0.0.1
	servers []*server
}

type pool struct {
	fleet     string
	policy    bool
	strategy  string
	body      string
	fallbacks int
	failClose bool
	h2c       bool
	full      int // the policy's inFlight; 0 means never full
	spill     []backend
	external  bool
}

type imported struct{ members []*member }

type member struct {
	name, kind, fleet string // kind is "declared", "relayed" or "parent"
	weight            int
	failClose         bool // false unless kind is "relayed"
}

type route struct {
	host     string
	section  string
	tls      bool
	port     int
	backends []backend
	edits    int // number of changes of the route's rule that keep the backends
}

// backend refers to a "pool", "service" or "import" (kind).
type backend struct {
	kind, name string
	weight     int
}

func (w *world) fresh(kind string) string {
	w.names++
	return fmt.Sprintf("%s-%d", kind, w.names)
}

// sortedKeys returns keys in a fixed order, because choices must depend only on the seed.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (w *world) leads(b backend, spill bool) []string {
	switch b.kind {
	case "service":
		return []string{w.services[b.name]}
	case "pool":
		p := w.pools[b.name]
		out := []string{p.fleet}
		if spill && p.policy {
			for _, s := range p.spill {
				out = append(out, w.leads(s, false)...)
			}
		}
		return out
	}
	var out []string
	for _, m := range w.imports[b.name].members {
		if m.weight > 0 {
			out = append(out, m.fleet)
		}
	}
	return out
}

func (w *world) answers(r *route) []string {
	var out []string
	for _, b := range r.backends {
		if b.weight > 0 {
			out = append(out, w.leads(b, true)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (w *world) refers(f func(b *backend)) {
	for _, name := range sortedKeys(w.routes) {
		for i := range w.routes[name].backends {
			f(&w.routes[name].backends[i])
		}
	}
	for _, name := range sortedKeys(w.pools) {
		for i := range w.pools[name].spill {
			f(&w.pools[name].spill[i])
		}
	}
}

func (w *world) collect() {
	for again := true; again; {
		used := map[backend]bool{}
		w.refers(func(b *backend) { used[backend{kind: b.kind, name: b.name}] = true })
		again = false
		maps.DeleteFunc(w.services, func(name, _ string) bool { return !used[backend{kind: "service", name: name}] })
		maps.DeleteFunc(w.imports, func(name string, _ *imported) bool {
			return !used[backend{kind: "import", name: name}]
		})
		maps.DeleteFunc(w.pools, func(name string, p *pool) bool {
			gone := !used[backend{kind: "pool", name: name}]
			again = again || gone
			return gone
		})
	}
	named := map[string]bool{}
	for _, l := range w.gateway.secure {
		named[l.secret] = true
	}
	maps.DeleteFunc(w.secrets, func(name string, _ *secret) bool { return !named[name] })
}

func (w *world) spilledTo(name string) bool {
	for _, p := range w.pools {
		if slices.ContainsFunc(p.spill, func(b backend) bool { return b.kind == "pool" && b.name == name }) {
			return true
		}
	}
	return false
}

func (f *fleet) serving() []*server {
	var out []*server
	for _, s := range f.servers {
		if !s.draining {
			out = append(out, s)
		}
	}
	return out
}

func (f *fleet) sorted() []*server {
	return slices.SortedFunc(slices.Values(f.servers), func(a, b *server) int { return cmp.Compare(a.port, b.port) })
}
