package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

func addServer(w *world, rng *rand.Rand) (string, error) {
	f := w.someFleet(rng)
	if len(f.servers) >= mostServers {
		return "", nil
	}
	s, err := w.newServer(f.name)
	if err != nil {
		return "", err
	}
	f.servers = append(f.servers, s)
	return fmt.Sprintf("%s at %d", s.name, s.port), s.serve()
}

// lateServer adds a server that does not accept connections yet. Envoy retries the server's
// requests at another server, so every policy must allow fallbacks.
func lateServer(w *world, rng *rand.Rand) (string, error) {
	f := w.someFleet(rng)
	if len(f.servers) >= mostServers || len(f.serving()) < 2 {
		return "", nil
	}
	for _, p := range w.pools {
		if p.policy && p.fallbacks == 0 {
			return "", nil
		}
	}
	s, err := w.newServer(f.name)
	if err != nil {
		return "", err
	}
	f.servers = append(f.servers, s)
	w.late = append(w.late, s)
	return fmt.Sprintf("%s at %d", s.name, s.port), nil
}

func drainServer(w *world, rng *rand.Rand) (string, error) {
	f := w.someFleet(rng)
	serving := f.serving()
	if len(serving) < 3 {
		return "", nil
	}
	s := pick(rng, serving...)
	s.draining = true
	return s.name, nil
}

// removeServer removes a server from the files. The server ends once its requests have ended.
func removeServer(w *world, rng *rand.Rand) (string, error) {
	f := w.someFleet(rng)
	s := pick(rng, f.servers...)
	if !s.draining && len(f.serving()) < 3 {
		return "", nil
	}
	f.servers = slices.DeleteFunc(f.servers, func(other *server) bool { return other == s })
	w.stopped = append(w.stopped, s)
	return s.name, nil
}

func (imp *imported) active() int {
	n := 0
	for _, m := range imp.members {
		if m.weight > 0 {
			n++
		}
	}
	return n
}

func importWeight(w *world, rng *rand.Rand) (string, error) {
	name, imp := w.someImport(rng)
	if imp == nil {
		return "", nil
	}
	m := pick(rng, imp.members...)
	m.weight = 1 + rng.IntN(4)
	return fmt.Sprintf("%s/%s %d", name, m.name, m.weight), nil
}

func importDrain(w *world, rng *rand.Rand) (string, error) {
	name, imp := w.someImport(rng)
	if imp == nil {
		return "", nil
	}
	m := pick(rng, imp.members...)
	if m.weight == 0 || imp.active() < 2 {
		return "", nil
	}
	m.weight = 0
	return name + "/" + m.name, nil
}

func importRemove(w *world, rng *rand.Rand) (string, error) {
	name, imp := w.someImport(rng)
	if imp == nil {
		return "", nil
	}
	m := pick(rng, imp.members...)
	if m.weight > 0 && imp.active() < 2 {
		return "", nil
	}
	imp.members = slices.DeleteFunc(imp.members, func(other *member) bool { return other == m })
	return name + "/" + m.name, nil
}

func importAdd(w *world, rng *rand.Rand) (string, error) {
	name, imp := w.someImport(rng)
	if imp == nil || len(imp.members) >= 3 {
		return "", nil
	}
	m := w.member(rng)
	imp.members = append(imp.members, m)
	return fmt.Sprintf("%s/%s %s on %s", name, m.name, m.kind, m.fleet), nil
}

func importMode(w *world, rng *rand.Rand) (string, error) {
	name, imp := w.someImport(rng)
	if imp == nil {
		return "", nil
	}
	m := pick(rng, imp.members...)
	m.kind = pick(rng,
		slices.DeleteFunc([]string{"declared", "relayed", "parent"},
			func(kind string) bool { return kind == m.kind })...)
	if m.kind != "parent" {
		m.fleet = externalFleet
	}
	m.failClose = m.kind == "relayed" && rng.IntN(2) == 0
	return fmt.Sprintf("%s/%s %s on %s", name, m.name, m.kind, m.fleet), nil
}
