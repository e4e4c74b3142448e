package usage

import (
	"time"

	"github.com/penstock-project/penstock/picker/accesslog"
)

const (
	// maxOpen bounds the requests in flight that Cut can count.
	maxOpen = 20_000
	// Envoy sends a periodic entry of each request every 2 s (translator/envoy). If none arrives
	// for openFor, another process receives the entries, or Envoy has ended.
	openFor = 5 * time.Second
)

// open has the last periodic entry of each request in flight. Keeper.mu guards it.
type open struct {
	last map[string]seen
	cut  map[string]bool // IDs of the requests that Cut has counted
}

type seen struct {
	used accesslog.Used
	at   time.Time
}

// note records a periodic entry. It returns whether to count the entry: only a request's last entry
// counts, and only if Cut has not counted the request.
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

// Cut counts the requests in flight as failed, with the bytes of their last periodic entries. A
// process calls it after it has ended the Envoys of all its Gateways, which send no last entries.
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
