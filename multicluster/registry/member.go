package registry

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store/rows"
	"github.com/penstock-project/penstock/multicluster/fault"
)

// State is the state of a member.
type State string

const (
	// Ready means that the member's lease has not expired.
	Ready State = "Ready"
	// Draining means that the member leaves the set or is drained. Its exports get no new requests.
	Draining State = "Draining"
	// Stale means that the member is connected, but its lease has expired.
	Stale State = "Stale"
	// Unreachable means that the member is not connected, and its lease has expired.
	Unreachable State = "Unreachable"
)

// Stamp orders a cluster's updates. Each process that publishes for the cluster has another Epoch,
// and counts its updates in Sequence.
type Stamp struct{ Epoch, Sequence uint64 }

// MaxStamp bounds Epoch and Sequence. A million updates per second reach it after 285 years.
const MaxStamp = 1 << 53

// Compare orders stamps.
func (s Stamp) Compare(o Stamp) int {
	return cmp.Or(cmp.Compare(s.Epoch, o.Epoch), cmp.Compare(s.Sequence, o.Sequence))
}

// Member is another cluster of the set.
type Member struct {
	Name  string
	State State
	// UID is the cluster's UID; "" before its first update.
	UID string
	// Known is the stamp up to which all exports of the member are known. Started is when the
	// process with the epoch of Known began to publish, by the member's clock; zero: unknown.
	Known   Stamp
	Started time.Time
	// Bundle has the member's last published CA certificates, in PEM.
	Bundle []byte

	connected bool
	drained   bool
	lapsed    time.Duration // when its lease last expired, as a time since New
	denied    denied
}

type denied struct {
	problem string
	least   int // size of the smallest export that had no room, in bytes
}

// Connected reports whether the member is connected.
func (m Member) Connected() bool { return m.connected }

func (m *Member) equal(o *Member) bool {
	return m.Name == o.Name && m.State == o.State && m.UID == o.UID && m.Known == o.Known &&
		m.Started.Equal(o.Started) && m.connected == o.connected && m.drained == o.drained &&
		bytes.Equal(m.Bundle, o.Bundle) && m.denied == o.denied
}

type lease struct {
	cluster  string
	deadline time.Duration // as a time since New
}

func (l *lease) end() time.Duration { return l.deadline }

// SetMembers replaces the members; exports of removed ones drain. It returns the pools that
// multicluster/imports must assemble again.
func (r *Registry) SetMembers(names []string) []objectid.Pool {
	return r.write(func(t txn) {
		for _, m := range slices.Collect(t.allMembers(nil)) {
			if !slices.Contains(names, m.Name) {
				r.remove(t, m)
			}
		}
		for _, name := range names {
			if t.member(name) == nil {
				rows.Must(t.Insert(memberTable, &Member{Name: name, State: Unreachable}))
			}
		}
	})
}

func (r *Registry) remove(t txn, m *Member) {
	rows.Must(t.Delete(memberTable, m))
	if l := rows.First[lease](t, leaseTable, rows.Key(m.Name)); l != nil {
		rows.Must(t.Delete(leaseTable, l))
	}
	t.unplace(m.Name, func(objectid.Pool) bool { return true })
	r.withdrawAll(t, m)
}

func (r *Registry) withdrawAll(t txn, m *Member) {
	for _, e := range slices.Collect(t.exportsOf(m.Name)) {
		r.withdraw(t, e, e.Stamp)
	}
}

// Connected stores whether a member is connected. Once its lease has expired, only an update makes
// it Ready.
func (r *Registry) Connected(name string, connected bool) []objectid.Pool {
	return r.write(func(t txn) {
		m := t.member(name)
		if m == nil || m.connected == connected {
			return
		}
		next := *m
		next.connected = connected
		if m.State == Stale || m.State == Unreachable {
			next.State = silent(connected)
		}
		rows.Must(t.Insert(memberTable, &next))
	})
}

func silent(connected bool) State {
	if connected {
		return Stale
	}
	return Unreachable
}

func (r *Registry) renew(t txn, m *Member) {
	deadline := r.now() + r.cfg.Lease
	if fault.Injected("lease") {
		deadline = 1 << 62
	}
	rows.Must(t.Insert(leaseTable, &lease{m.Name, deadline}))
}

func (r *Registry) running(t txn, m *Member) bool {
	l := rows.First[lease](t, leaseTable, rows.Key(m.Name))
	return l != nil && l.deadline > r.now()
}

func (r *Registry) expireLeases(t txn) {
	now := r.now()
	for _, l := range slices.Collect(until[*lease](t, leaseTable, byDeadline, now)) {
		rows.Must(t.Delete(leaseTable, l))
		m := t.member(l.cluster)
		if m == nil {
			continue
		}
		next := *m
		if next.lapsed = now; m.State == Ready {
			next.State = silent(m.connected)
		}
		rows.Must(t.Insert(memberTable, &next))
		if fault.Injected("silence") {
			r.withdrawAll(t, m)
		}
	}
}

// Members returns all members, sorted by name. ws may be nil.
func (r *Registry) Members(ws WatchSet) (out []Member) {
	for m := range r.read().allMembers(ws) {
		out = append(out, *m)
	}
	return out
}

// Member returns a member; false if it does not exist.
func (r *Registry) Member(name string) (Member, bool) {
	if m := r.read().member(name); m != nil {
		return *m, true
	}
	return Member{}, false
}

// InState returns the names of the members in a state, sorted.
func (r *Registry) InState(s State) (names []string) {
	for m := range rows.Walk[Member](r.read(), nil, memberTable, byState, rows.Key(string(s))) {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}
