package simulate

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const (
	// Changes and faults happen between joinedBy and healed. At settled all invariants must hold.
	joinedBy = 20 * time.Second
	healed   = 9 * time.Minute
	settled  = time.Minute
	// faults and changes are how many of each a seed has.
	faults  = 30
	changes = 30
)

// sharedPools are pools of namespace team that all nodes may have.
var sharedPools = []string{"chat", "embed", "rerank"}

// act is a kind of change or fault at a node. do carries it out and returns a log line; "": it is
// not possible now.
type act struct {
	name string
	do   func(n *node, draw func(n int, what string) int) string
}

// usersDo are the changes that users make.
var usersDo = []act{
	{"annotate", func(n *node, draw func(int, string) int) string {
		p := n.pools[draw(len(n.pools), "pool")]
		p.exported, p.changed = !p.exported, time.Now()
		return fmt.Sprintf("%s: export of %s: %v", n.name, p.key(), p.exported)
	}},
	{"servers", func(n *node, draw func(int, string) int) string {
		p := n.pools[draw(len(n.pools), "pool")]
		p.generation++
		if p.servers = 1 + draw(5, "servers"); draw(4, "many") == 0 {
			p.servers = 100 + draw(100, "servers") // enough to be sent in parts
		}
		return fmt.Sprintf("%s: %s has %d servers", n.name, p.key(), p.servers)
	}},
	{"weight", func(n *node, draw func(int, string) int) string {
		p := n.pools[draw(len(n.pools), "pool")]
		p.weight = 1 + draw(9, "weight")
		return fmt.Sprintf("%s: %s has weight %d", n.name, p.key(), p.weight)
	}},
	{"audience", func(n *node, draw func(int, string) int) string {
		p := n.pools[draw(len(n.pools), "pool")]
		others := slices.Sorted(maps.Keys(n.joined))
		p.changed = time.Now()
		if p.to = nil; draw(3, "all") > 0 && len(others) > 0 {
			p.to = []string{others[draw(len(others), "one")]}
		}
		return fmt.Sprintf("%s: %s is for %v", n.name, p.key(), p.to)
	}},
	{"leave", leave},
	{"drain", func(n *node, _ func(int, string) int) string {
		n.draining = !n.draining
		return fmt.Sprintf("%s: draining: %v", n.name, n.draining)
	}},
}

// leave removes a member from a node's set, and later adds the member's then current entry.
func leave(n *node, draw func(n int, what string) int) string {
	names := slices.Sorted(maps.Keys(n.joined))
	if len(names) == 0 {
		return ""
	}
	o := n.w.node(names[draw(len(names), "member")])
	delete(n.joined, o.name)
	n.touch()
	for _, p := range n.processes {
		p.forget(o.name)
	}
	name := fmt.Sprintf("%s: member %s is back %d", n.name, o.name, time.Since(n.w.began))
	n.w.schedule("", name, time.Duration(draw(60_000, "time"))*time.Millisecond, func() { n.join(o) })
	return fmt.Sprintf("%s: %s is no member", n.name, o.name)
}

// join makes another node a member.
func (n *node) join(o *node) {
	if member, ok := o.member(); ok && n.joined[o.name].Peer == nil {
		for _, p := range n.processes {
			p.forget(o.name)
		}
		n.joined[o.name] = member
		n.touch()
		n.changed()
	}
}

// happens are the kinds of faults.
var happens = []act{
	{"cut", func(n *node, draw func(int, string) int) string {
		o := n.other(draw(2, "other"))
		n.w.net.link(n.name, o.name).cut = time.Now().Add(time.Duration(draw(20_000, "time")) * time.Millisecond)
		n.w.net.lose(n.name, o.name)
		return fmt.Sprintf("no connections between %s and %s", n.name, o.name)
	}},
	{"partition", func(n *node, draw func(int, string) int) string {
		o := n.other(draw(2, "other"))
		l := n.w.net.link(n.name, o.name)
		l.silent = time.Now().Add(time.Duration(draw(45_000, "time")) * time.Millisecond)
		for _, t := range n.w.net.between(n.name, o.name) {
			t.silence(func() bool { return time.Now().Before(l.silent) })
		}
		return fmt.Sprintf("silence between %s and %s", n.name, o.name)
	}},
	{"slow", func(n *node, draw func(int, string) int) string {
		o := n.other(draw(2, "other"))
		n.w.net.link(n.name, o.name).slow = time.Now().Add(time.Duration(draw(30_000, "time")) * time.Millisecond)
		return fmt.Sprintf("%s and %s are far from each other", n.name, o.name)
	}},
	{"kill", func(n *node, draw func(int, string) int) string { return n.restart(draw, false, false) }},
	{"power", func(n *node, draw func(int, string) int) string { return n.restart(draw, true, false) }},
	{"zombie", func(n *node, draw func(int, string) int) string { return n.restart(draw, false, true) }},
	{"full", func(n *node, draw func(int, string) int) string {
		n.disk.mu.Lock()
		n.disk.full = true
		n.disk.mu.Unlock()
		name := fmt.Sprintf("%s: room on the disk %d", n.name, time.Since(n.w.began))
		n.w.schedule("", name, time.Duration(draw(20_000, "time"))*time.Millisecond, func() {
			n.disk.mu.Lock()
			defer n.disk.mu.Unlock()
			n.disk.full = false
		})
		return n.name + ": the disk is full"
	}},
	{"lying", func(n *node, draw func(int, string) int) string {
		n.disk.mu.Lock()
		defer n.disk.mu.Unlock()
		n.disk.lying = !n.disk.lying
		return fmt.Sprintf("%s: the disk loses directory syncs: %v", n.name, n.disk.lying)
	}},
	{"backup", func(n *node, draw func(int, string) int) string {
		if n.backup == nil {
			n.backup = n.disk.snapshot()
			return n.name + ": backup"
		}
		if n.own() == nil {
			return ""
		}
		n.lost = true
		text := n.restart(draw, true, false) + ", from a backup"
		n.disk.restore(n.backup)
		return text
	}},
	{"identity", func(n *node, draw func(int, string) int) string {
		if n.own() == nil {
			return ""
		}
		n.lost = true
		text := n.restart(draw, false, false) + ", without its identity"
		n.disk.lose("/state/cluster/identity")
		return text
	}},
	{"hostile", func(n *node, draw func(int, string) int) string {
		if n.name != "c" {
			return ""
		}
		n.hostile = time.Now().Add(time.Duration(draw(60_000, "time")) * time.Millisecond)
		n.floods = draw(6, "flood") == 0
		return fmt.Sprintf("%s is hostile; it floods: %v", n.name, n.floods)
	}},
}

func (n *node) other(i int) *node {
	others := slices.DeleteFunc(slices.Clone(n.w.nodes), func(o *node) bool { return o == n })
	return others[i]
}

// restart ends a node's process, and later starts another. zombie means that the old process
// continues for a while on a copy of the disk.
func (n *node) restart(draw func(int, string) int, power, zombie bool) string {
	p := n.own()
	if p == nil || zombie && len(n.processes) > 1 {
		return ""
	}
	at := fmt.Sprint(time.Since(n.w.began).Milliseconds())
	text, after := p.id+" is killed", time.Duration(draw(20_000, "time"))*time.Millisecond
	switch {
	case zombie:
		text, after = p.id+" is replaced, and goes on", 0
		p.alone = true
		p.mount.disk = &disk{names: n.disk.snapshot(), kept: n.disk.snapshot()}
		n.w.schedule("", n.name+": end of "+p.id, time.Duration(5000+draw(60_000, "zombie"))*time.Millisecond, func() {
			if slices.Contains(n.processes, p) {
				n.stop(p, false)
			}
		})
		for i := range 4 { // members may connect to either process
			name := fmt.Sprintf("%s: connections to %s and its successor are lost %d", n.name, p.id, i)
			after := time.Duration(i*6000+1000+draw(5000, "reset"+fmt.Sprint(i))) * time.Millisecond
			n.w.schedule("", name, after, func() {
				for _, o := range n.w.nodes {
					n.w.net.lose(n.name, o.name)
				}
			})
		}
		pool := n.pools[draw(len(n.pools), "pool")] // the old process does not see this change
		pool.exported, pool.changed = !pool.exported, time.Now()
		text += fmt.Sprintf("; export of %s: %v", pool.key(), pool.exported)
	case power:
		text = p.id + " has no power"
		n.stop(p, true)
		n.disk.cutPower(func(k int, what string) int { return draw(k, what) })
	default:
		n.stop(p, false)
	}
	n.w.schedule("", n.name+": start "+at, after, func() {
		if n.own() == nil {
			n.start()
		}
	})
	return text
}

func (n *node) stop(p *process, power bool) {
	p.kill(power)
	n.processes = slices.DeleteFunc(n.processes, func(o *process) bool { return o == p })
	n.w.ended = append(n.w.ended, p)
}

// plan schedules the events of a seed. As in swarm testing, each seed has only some kinds of
// faults.
func (w *world) plan() {
	var kinds []act
	for _, a := range happens {
		if w.draw(2, "kind "+a.name) == 0 {
			kinds = append(kinds, a)
		}
	}
	if len(kinds) == 0 {
		kinds = happens
	}
	span := int((healed - joinedBy).Milliseconds())
	for i := range faults + changes {
		acts, what := kinds, "fault"
		if i >= faults {
			acts, what = usersDo, "change"
		}
		name := fmt.Sprintf("%s %d", what, i)
		draw := func(n int, what string) int { return w.draw(n, name+" "+what) }
		a, n := acts[draw(len(acts), "act")], w.nodes[draw(len(w.nodes), "node")]
		at := joinedBy + time.Duration(draw(span, "at"))*time.Millisecond
		w.schedule("", fmt.Sprintf("%s: %s of %s", name, a.name, n.name), at-time.Since(w.began), func() {
			if text := a.do(n, draw); text != "" {
				w.note("  %s", text)
				n.changed()
			}
		})
	}
	w.schedule("", "all faults are healed", healed-time.Since(w.began), w.heal)
}

// heal ends all faults.
func (w *world) heal() {
	w.net.mu.Lock()
	for _, l := range w.net.links {
		*l = link{}
	}
	w.net.mu.Unlock()
	for _, n := range w.nodes {
		n.disk.mu.Lock()
		n.disk.full, n.disk.lying = false, false
		n.disk.mu.Unlock()
		if n.lied() {
			n.hostile = w.began
		}
		for _, p := range slices.Clone(n.processes) {
			if p.alone || n.lied() { // a hostile node's next process must not have invented exports
				n.stop(p, false)
			}
		}
		if n.own() == nil {
			n.start()
		}
	}
	w.join()
}

// join makes all nodes members of each other.
func (w *world) join() {
	for _, n := range w.nodes {
		for _, o := range w.nodes {
			if o != n {
				n.join(o)
			}
		}
	}
}

// populate makes the nodes.
func (w *world) populate() {
	for i, name := range []string{"a", "b", "c"} {
		n := &node{
			w: w, name: name, number: i + 1, disk: newDisk(),
			joined: map[string]v1alpha1.ClusterSetMember{}, published: map[string]*discoveryResponse{},
		}
		for k, pool := range sharedPools {
			n.pools = append(n.pools, poolOf("team", pool, w.draw(2, fmt.Sprintf("%s %d", name, k)) == 0))
		}
		n.pools = append(n.pools, poolOf("team", "only-"+name, true), poolOf("private", "secret", true))
		w.nodes = append(w.nodes, n)
	}
	for i, n := range w.nodes {
		w.schedule("", n.name+": start", time.Duration(i)*317*time.Millisecond, func() { n.start() })
	}
	w.schedule("", "all join", joinedBy/2, w.join)
}

func poolOf(namespace, name string, exported bool) *pool {
	return &pool{namespace: namespace, name: name, exported: exported, weight: 1, servers: 2}
}
