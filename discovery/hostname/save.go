package hostname

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

// reportEvery is the interval at which failed lookups are stored, and changed addresses are written
// to the state file. So thousands of names that fail at once need only one write.
const reportEvery = time.Second

const mostLogged = 8

type batch struct {
	every   time.Duration
	timer   *time.Timer
	waits   bool
	answers []answer
}

func newBatch(every time.Duration) *batch {
	b := &batch{every: every, timer: time.NewTimer(every)}
	b.timer.Stop()
	return b
}

func (b *batch) add(a answer) {
	b.begin()
	b.answers = append(b.answers, a)
}

func (b *batch) begin() {
	if !b.waits {
		b.waits = true
		b.timer.Reset(b.every)
	}
}

func (b *batch) take() []answer {
	out := b.answers
	b.answers, b.waits = nil, false
	return out
}

// Restore stores the addresses that the previous process persisted. Call it before the first
// translation.
func (r *Resolver) Restore() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ops []store.Op
	for text, addresses := range r.restored {
		ops = append(ops, store.Hosts.Put(&store.Host{ObjectMeta: metav1.ObjectMeta{Name: text}, Addresses: addresses}))
	}
	return r.apply(ops)
}

func (r *Resolver) removeUnused() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ops []store.Op
	for _, h := range store.Hosts.All(r.cfg.Store.View()) {
		if r.names[h.Name] == nil {
			r.former.keep(h.Name, h.Addresses, time.Now())
			ops = append(ops, store.Hosts.Delete(h.Name))
		}
	}
	return r.apply(ops)
}

func (r *Resolver) save(answers []answer) error {
	if len(answers) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	view := r.cfg.Store.View()
	var ops []store.Op
	failed := map[string]string{}
	for _, a := range answers {
		if a.name.gone {
			continue
		}
		host := &store.Host{ObjectMeta: metav1.ObjectMeta{Name: a.name.text}, Addresses: a.addresses, Error: a.problem}
		before, known := store.Hosts.Get(view, a.name.text)
		switch {
		case a.problem != "" && known:
			host.Addresses = before.Addresses
		case a.problem != "":
			host.Addresses = r.restored[a.name.text]
		}
		if a.problem != "" && (!known || before.Error == "") {
			failed[a.name.text] = a.problem
		}
		if r.onChange != nil && a.problem == "" && known && !slices.Equal(before.Addresses, a.addresses) {
			r.onChange(a.name.text, a.addresses)
		}
		ops = append(ops, store.Hosts.Put(host))
	}
	if err := r.apply(ops); err != nil {
		return err
	}
	if len(failed) > 0 {
		some := slices.Sorted(maps.Keys(failed))
		some = some[:min(len(some), mostLogged)]
		r.cfg.Log.Warn("host names do not resolve; their last addresses stay in use", "hosts",
			strings.Join(some, " "), "error", failed[some[0]], "count", len(failed))
	}
	for _, a := range answers {
		r.settle(a.name)
	}
	return nil
}

// Learn stores addresses that another process has just looked up, if this process uses the name.
func (r *Resolver) Learn(text string, addresses []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.names[text]
	if n == nil || len(addresses) == 0 {
		return nil
	}
	host := &store.Host{ObjectMeta: metav1.ObjectMeta{Name: text}, Addresses: addresses}
	if before, known := store.Hosts.Get(r.cfg.Store.View(), text); known {
		host.Error = before.Error
	}
	if err := r.apply([]store.Op{store.Hosts.Put(host)}); err != nil {
		return err
	}
	r.settle(n)
	return nil
}

func (r *Resolver) persist() {
	r.persisting.Lock()
	defer r.persisting.Unlock()
	r.state.outcome.Log(r.cfg.Log, r.state.path, "addresses of host names that do not resolve then",
		r.state.persist(r.last()))
}

func (r *Resolver) last() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string][]string{}
	for name, a := range r.former {
		out[name] = a.addresses
	}
	for _, h := range store.Hosts.All(r.cfg.Store.View()) {
		if len(h.Addresses) > 0 {
			out[h.Name] = h.Addresses
		}
	}
	return out
}
