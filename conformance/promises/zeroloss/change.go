package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// change is a kind of change. do edits the world and returns a description, or "" if the change is
// not possible.
type change struct {
	name   string
	weight int
	do     func(w *world, rng *rand.Rand) (string, error)
}

func changes() []change {
	return []change{
		{"move", 5, move},
		{"split", 2, split},
		{"rename-pool", 3, renamePool},
		{"edit-route", 2, editRoute},
		{"strategy", 3, edit(func(p *pool, rng *rand.Rand) string {
			p.policy, p.strategy = true, pick(rng, "load", "round-robin", "random", "least-request")
			return "strategy " + p.strategy
		})},
		{"body", 3, edit(func(p *pool, _ *rand.Rand) string {
			p.policy, p.body = true, map[string]string{"None": "Buffered", "Buffered": "None"}[p.body]
			return "body " + p.body
		})},
		{"failure-mode", 2, edit(func(p *pool, _ *rand.Rand) string {
			p.policy, p.failClose = true, !p.failClose
			return p.failureMode()
		})},
		{"no-policy", 1, noPolicy},
		{"protocol", 1, protocol},
		{"full", 4, full},
		{"spill", 4, spill},
		{"picker", 3, swapPicker},
		{"server-add", 4, addServer},
		{"server-late", 2, lateServer},
		{"server-drain", 3, drainServer},
		{"server-remove", 3, removeServer},
		{"import-weight", 2, importWeight},
		{"import-drain", 2, importDrain},
		{"import-remove", 2, importRemove},
		{"import-add", 2, importAdd},
		{"import-mode", 3, importMode},
		{"certificate", 2, rotate},
		{"certificate-ref", 1, otherSecret},
		{"listener-add", 2, addListener},
		{"listener-remove", 2, removeListener},
		{"listener-change", 1, changeListener},
	}
}

// next draws a possible change and makes it. only, if not empty, limits the kinds.
func (w *world) next(seed, step uint64, only []string) (string, error) {
	rng := rand.New(rand.NewPCG(seed, step))
	w.late, w.stopped, w.retired = nil, nil, nil
	var deck []change
	for _, c := range changes() {
		if len(only) == 0 || slices.Contains(only, c.name) {
			for range c.weight {
				deck = append(deck, c)
			}
		}
	}
	for range 100 {
		c := deck[rng.IntN(len(deck))]
		did, err := c.do(w, rng)
		if err != nil {
			return "", err
		}
		if did != "" {
			w.collect()
			return c.name + ": " + did, nil
		}
	}
	return "nothing to change", nil
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func (w *world) somePool(rng *rand.Rand) (string, *pool) {
	if len(w.pools) == 0 {
		return "", nil
	}
	name := pick(rng, sortedKeys(w.pools)...)
	return name, w.pools[name]
}

func (w *world) someRoute(rng *rand.Rand) (string, *route) {
	name := pick(rng, sortedKeys(w.routes)...)
	return name, w.routes[name]
}

func (w *world) someImport(rng *rand.Rand) (string, *imported) {
	if len(w.imports) == 0 {
		return "", nil
	}
	name := pick(rng, sortedKeys(w.imports)...)
	return name, w.imports[name]
}

func (w *world) someFleet(rng *rand.Rand) *fleet { return w.fleets[pick(rng, sortedKeys(w.fleets)...)] }

func (w *world) create(rng *rand.Rand) backend {
	kind := pick(rng, "service", "pool", "pool", "pool", "import")
	name := w.fresh(kind)
	fleet := w.someFleet(rng).name
	switch kind {
	case "service":
		w.services[name] = fleet
	case "pool":
		w.pools[name] = &pool{
			fleet: fleet, policy: rng.IntN(2) == 0,
			strategy: pick(rng, "load", "round-robin", "random", "least-request"),
			body:     pick(rng, "None", "Buffered"), fallbacks: min(2, rng.IntN(6)), failClose: rng.IntN(2) == 0,
			external: fleet == externalFleet && rng.IntN(2) == 0,
		}
	case "import":
		imp := &imported{}
		for range 1 + rng.IntN(2) {
			imp.members = append(imp.members, w.member(rng))
		}
		w.imports[name] = imp
	}
	return backend{kind, name, 1}
}

func (w *world) member(rng *rand.Rand) *member {
	m := &member{name: w.fresh("c"), kind: pick(rng, "declared", "relayed", "parent"), fleet: externalFleet, weight: 1}
	switch m.kind {
	case "parent":
		m.fleet = w.someFleet(rng).name
	case "relayed":
		m.failClose = rng.IntN(2) == 0
	}
	return m
}

// move gives a route new backends. collect later deletes the old backends if no object refers to
// them.
func move(w *world, rng *rand.Rand) (string, error) {
	name, r := w.someRoute(rng)
	old := r.backends
	r.backends = []backend{w.create(rng)}
	return fmt.Sprintf("%s from %s to %s", name, list(old), list(r.backends)), nil
}

func list(backends []backend) string {
	var out []string
	for _, b := range backends {
		out = append(out, fmt.Sprintf("%s %s*%d", b.kind, b.name, b.weight))
	}
	return strings.Join(out, "+")
}

func split(w *world, rng *rand.Rand) (string, error) {
	name, r := w.someRoute(rng)
	r.backends = slices.Clone(r.backends)
	switch i := rng.IntN(len(r.backends)); {
	case len(r.backends) == 1:
		r.backends = append(r.backends, w.create(rng))
	case rng.IntN(2) == 0:
		r.backends = slices.Delete(r.backends, i, i+1)
		r.backends[0].weight = 1
	default:
		r.backends[i].weight = 1 + rng.IntN(5)
	}
	return name + " to " + list(r.backends), nil
}

func renamePool(w *world, rng *rand.Rand) (string, error) {
	old, p := w.somePool(rng)
	if p == nil {
		return "", nil
	}
	name := w.fresh("pool")
	w.pools[name] = p
	delete(w.pools, old)
	w.refers(func(b *backend) {
		if b.kind == "pool" && b.name == old {
			b.name = name
		}
	})
	return old + " to " + name, nil
}

func editRoute(w *world, rng *rand.Rand) (string, error) {
	name, r := w.someRoute(rng)
	r.edits++
	return name, nil
}

func edit(f func(*pool, *rand.Rand) string) func(*world, *rand.Rand) (string, error) {
	return func(w *world, rng *rand.Rand) (string, error) {
		name, p := w.somePool(rng)
		if p == nil || p.external {
			return "", nil
		}
		return name + " " + f(p, rng), nil
	}
}

// protocol switches a pool between HTTP/1.1 and HTTP/2. The pool's servers serve both.
func protocol(w *world, rng *rand.Rand) (string, error) {
	name, p := w.somePool(rng)
	if p == nil {
		return "", nil
	}
	p.h2c = !p.h2c
	return fmt.Sprintf("%s h2c: %t", name, p.h2c), nil
}

func noPolicy(w *world, rng *rand.Rand) (string, error) {
	name, p := w.somePool(rng)
	if p == nil || !p.policy {
		return "", nil
	}
	p.policy, p.full, p.spill, p.body = false, 0, nil, "None"
	return name, nil
}

// full changes the limit at which a pool overflows. The pool must have a spill target, and must not
// be one. Otherwise 429 would be a correct answer.
func full(w *world, rng *rand.Rand) (string, error) {
	name, p := w.somePool(rng)
	if p == nil || p.external || len(p.spill) == 0 || w.spilledTo(name) {
		return "", nil
	}
	p.full = pick(rng, 0, 1, 2, 4)
	return fmt.Sprintf("%s at %d", name, p.full), nil
}

// spill changes targets and limit in one policy, so that both take effect in one revision.
func spill(w *world, rng *rand.Rand) (string, error) {
	name, p := w.somePool(rng)
	if p == nil {
		return "", nil
	}
	p.policy, p.spill, p.full = true, nil, 0
	var candidates []backend
	for _, other := range sortedKeys(w.pools) {
		if other != name && w.pools[other].full == 0 {
			candidates = append(candidates, backend{kind: "pool", name: other})
		}
	}
	for _, imp := range sortedKeys(w.imports) {
		if slices.ContainsFunc(w.imports[imp].members, func(m *member) bool { return m.weight > 0 }) {
			candidates = append(candidates, backend{kind: "import", name: imp})
		}
	}
	rng.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
	p.spill = candidates[:min(len(candidates), rng.IntN(3))]
	if len(p.spill) > 0 && !w.spilledTo(name) && !p.external {
		p.full = pick(rng, 0, 1, 2)
	}
	return fmt.Sprintf("%s to %s, full at %d", name, list(p.spill), p.full), nil
}

func swapPicker(w *world, rng *rand.Rand) (string, error) {
	name, p := w.somePool(rng)
	if p == nil || p.fleet != externalFleet {
		return "", nil
	}
	p.external, p.full = !p.external, 0
	return fmt.Sprintf("%s external: %t", name, p.external), nil
}

func rotate(w *world, rng *rand.Rand) (string, error) {
	name := pick(rng, sortedKeys(w.secrets)...)
	w.secrets[name] = w.newSecret(w.secrets[name].host)
	return name, nil
}

func otherSecret(w *world, rng *rand.Rand) (string, error) {
	name := pick(rng, sortedKeys(w.gateway.secure)...)
	l := w.gateway.secure[name]
	l.secret = w.fresh("cert")
	w.secrets[l.secret] = w.newSecret(l.host)
	return name + " to " + l.secret, nil
}

const (
	mostListeners = 6
	mostServers   = 5 // of each fleet
)

func addListener(w *world, rng *rand.Rand) (string, error) {
	if !w.gateway.extra && rng.IntN(2) == 0 {
		w.gateway.extra = true
		name := w.fresh("x")
		w.routes[name] = &route{host: name + ".test", section: "extra", port: w.gateway.extraPort,
			backends: []backend{w.create(rng)}}
		return "cleartext for " + name, nil
	}
	if len(w.gateway.secure) >= mostListeners {
		return "", nil
	}
	name := w.fresh("s")
	host := name + ".test"
	w.gateway.secure[name] = &listener{host: host, secret: w.fresh("cert")}
	w.secrets[w.gateway.secure[name].secret] = w.newSecret(host)
	w.routes[name] = &route{host: host, section: name, tls: true, port: w.gateway.tlsPort,
		backends: []backend{w.create(rng)}}
	return "HTTPS for " + host, nil
}

func removeListener(w *world, rng *rand.Rand) (string, error) {
	var names []string
	for _, name := range sortedKeys(w.routes) {
		if !strings.HasPrefix(name, "r") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	name := pick(rng, names...)
	r := w.routes[name]
	if r.tls {
		delete(w.gateway.secure, name)
	} else {
		w.gateway.extra = false
	}
	w.retired = append(w.retired, r.host)
	delete(w.routes, name)
	return name, nil
}

func changeListener(w *world, _ *rand.Rand) (string, error) {
	w.gateway.hostname = map[string]string{"": "*.test", "*.test": ""}[w.gateway.hostname]
	return fmt.Sprintf("http to hostname %q", w.gateway.hostname), nil
}
