package usage

import (
	"time"

	"github.com/penstock-project/penstock/picker/accesslog"
)

const (
	// Beyond maxOpen requests in flight, a request that is cut with its Envoy is not counted.
	maxOpen = 20_000
	// Envoy repeats a periodic entry every 2 s (translator/envoy). Without one for longer, another
	// process receives the entries of the request, or its Envoy has ended.
	openFor = 5 * time.Second
)

// open has the last periodic entries of requests in flight. Keeper.mu guards it.
type open struct {
	last map[string]seen
	cut  map[string]bool // counted without a last entry
}

type seen struct {
	used accesslog.Used
	at   time.Time
}

// note reports whether an entry is the only one that counts its request.
func (o *open) note(u *accesslog.Used, now time.Time) bool {
	switch {
	case u.Open && len(o.last) >= maxOpen && o.last[u.ID].at.IsZero():
		o.drop(now)
		return false
	case u.Open:
		if o.last == nil {
			o.last = map[string]seen{}
		}
		o.last[u.ID] = seen{*u, now}
		return false
	case len(o.cut) > 0 && o.cut[u.ID]:
		return false
	}
	delete(o.last, u.ID)
	return true
}

func (o *open) drop(now time.Time) {
	for id, s := range o.last {
		if now.Sub(s.at) > openFor {
			delete(o.last, id)
		}
	}
}

// Cut counts the requests in flight as failed, with the bytes of their last periodic entries. It is
// for a process that has ended the Envoys of all its Gateways.
func (k *Keeper) Cut() {
	now := k.cfg.Now()
	k.mu.Lock()
	k.open.drop(now)
	var list []accesslog.Used
	cut := k.open.cut
	if cut == nil {
		cut = map[string]bool{}
	}
	for id, s := range k.open.last {
		s.used.Open, s.used.Cut = false, true
		list, cut[id] = append(list, s.used), true
	}
	k.open = open{}
	k.mu.Unlock()
	if len(list) > 0 {
		k.Log(list)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open.cut = cut
}
