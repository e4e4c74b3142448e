package federation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/penstock-project/penstock/multicluster/channel"
)

// audienceSuffix ends the key of an item that a hub alone receives: which members it relays the export of that key to, as a list of their names.
const audienceSuffix = "#to"

func audienceKey(key string) string { return key + audienceSuffix }

// relayedFrom is the key, in the place of an address, of a member that the hub at an address relays.
func relayedFrom(hub, member string) string { return hub + "/" + member }

// through is the hub among members, and those that it relays, sorted; without a hub, none.
func through(members []Member) (hub Member, relayed []string) {
	i := slices.IndexFunc(members, func(m Member) bool { return m.Hub && m.Address != "" })
	if i < 0 {
		return hub, nil
	}
	for _, m := range members {
		if m.Address == "" {
			relayed = append(relayed, m.Name)
		}
	}
	slices.Sort(relayed)
	return members[i], relayed
}

// HubConnected reports whether this cluster is connected to the hub among its members.
func (f *Federation) HubConnected() bool {
	f.mu.Lock()
	address := ""
	for at, m := range f.members {
		if m.Hub && at == m.Address {
			address = at
		}
	}
	f.mu.Unlock()
	return address != "" && f.channel.Connected(address)
}

type handler = func(context.Context, channel.Update) error

// relayed has a handler receive what a hub relays as if each member had published it itself; Update.Peer is relayedFrom then. A hub that is not
// connected to a member, because it has just started, has nothing of it, which withdraws nothing: until it has the member's key "" again, the member
// is disconnected. With that key come all that the member publishes. Of members that are no relayed ones here nothing is received.
func (f *Federation) relayed(handle handler) handler {
	var mu sync.Mutex
	known := map[string]bool{} // by relayedFrom: the hub has all that the member publishes
	return func(ctx context.Context, in channel.Update) error {
		f.mu.Lock()
		peer := f.members[in.Peer]
		if !peer.Hub {
			f.mu.Unlock()
			return handle(ctx, in)
		}
		var names []string
		for at, m := range f.members {
			if at == relayedFrom(in.Peer, m.Name) {
				names = append(names, m.Name)
			}
		}
		f.mu.Unlock()
		slices.Sort(names)
		items, retracted := map[string][]channel.Item{}, map[string][]string{}
		for _, it := range in.Items {
			if it.Key == stateKey { // the hub's own
				if s, err := decodeCluster(it.Value); err == nil {
					f.trust.published(peer.Name, []byte(s.Bundle))
				}
				continue
			}
			member, key, _ := strings.Cut(it.Key, "/")
			it.Key = key
			items[member] = append(items[member], it)
		}
		for _, k := range in.Retracted {
			member, key, _ := strings.Cut(k, "/")
			retracted[member] = append(retracted[member], key)
		}
		var problems []error
		for _, name := range names {
			u := channel.Update{Peer: relayedFrom(in.Peer, name), Disconnected: in.Disconnected, Items: items[name], Retracted: retracted[name]}
			begins := slices.ContainsFunc(u.Items, func(it channel.Item) bool { return it.Key == stateKey })
			mu.Lock()
			had := known[u.Peer]
			switch {
			case u.Disconnected: // what is in effect of it may be resumed
			case begins:
				known[u.Peer], u.Snapshot = true, in.Snapshot || !had
			case in.Snapshot || slices.Contains(u.Retracted, stateKey):
				known[u.Peer] = false
				u = channel.Update{Peer: u.Peer, Disconnected: true}
			}
			is := known[u.Peer]
			mu.Unlock()
			if !u.Disconnected && (!is || len(u.Items)+len(u.Retracted) == 0) {
				continue
			}
			u.Items = slices.DeleteFunc(u.Items, func(it channel.Item) bool { return it.Key == stateKey && len(it.Value) == 0 }) // the hub's own
			problems = append(problems, handle(ctx, u))
		}
		return errors.Join(problems...)
	}
}
