package authz

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/penstock-project/penstock/picker/authz/jwt"
)

// Key is an API key, or the caller of a token. It is immutable.
type Key struct {
	Namespace, Name string
	Labels          labels.Set
	Created         time.Time // zero for a key from a file
	Hashes          []Hash
	// Caller is the key's owner, as "namespace/owner".
	Caller    string
	Groups    []string
	Objective string // "" for none
	// Models are names, or prefixes that end in "*"; nil permits all.
	Models []string
	// Pools are "NAMESPACE/NAME" of an InferencePool, or "NAMESPACE/NAME@" of an import; nil
	// permits all.
	Pools    []string
	Expires  time.Time // zero means never
	Disabled bool
}

func (k *Key) usable(now time.Time) bool {
	return !k.Disabled && (k.Expires.IsZero() || now.Before(k.Expires))
}

// Policy states which keys and tokens an AccessPolicy permits. It is immutable.
type Policy struct {
	Namespaces []string
	Selector   labels.Selector
	ByModel    bool      // Envoy reads the model of requests on its routes
	JWT        *jwt.Rule // nil denies every token
	Closed     bool      // the AccessPolicy is invalid, and denies every request
	Watches    bool      // the AccessPolicy has revoke: Immediately (Open)
}

func (p *Policy) selects(k *Key) bool {
	return slices.Contains(p.Namespaces, k.Namespace) && p.Selector.Matches(k.Labels)
}

// policyGrace is how long a removed policy still decides, because Envoys may still have routes with
// it.
const policyGrace = 10 * time.Minute

// Table has all keys and policies. It is safe for concurrent use.
type Table struct {
	mu       sync.RWMutex
	filled   bool
	byName   map[string]*record
	byHash   map[Hash]*record   // of several keys with one hash, the first
	shared   map[Hash][]*record // hashes that several keys have; immutable slices, oldest key first
	rights   map[string]*rights
	policies map[string]*Policy
	removed  map[string]time.Time // when a policy was removed that still decides
	changed  func(hashes []Hash, policies []string)
}

// NewTable returns an empty Table. It cannot decide before its first Apply.
func NewTable() *Table {
	return &Table{byName: map[string]*record{}, byHash: map[Hash]*record{}, shared: map[Hash][]*record{},
		rights: map[string]*rights{}, policies: map[string]*Policy{}, removed: map[string]time.Time{}}
}

// Change lists changed keys and policies by "namespace/name". A nil value removes the object.
type Change struct {
	Keys     map[string]*Key
	Policies map[string]*Policy
}

// Apply applies a change atomically.
func (t *Table) Apply(c Change, now time.Time) {
	if changed, hashes := t.apply(c, now); changed != nil {
		changed(hashes, slices.Collect(maps.Keys(c.Policies)))
	}
}

// follow makes each Apply call changed, with the hashes of changed keys and the names of changed
// policies.
func (t *Table) follow(changed func(hashes []Hash, policies []string)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = changed
}

func (t *Table) apply(c Change, now time.Time) (changed func([]Hash, []string), hashes []Hash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.filled = true
	for name, k := range c.Keys {
		if old := t.byName[name]; old != nil && t.changed != nil {
			hashes = append(hashes, old.hashes...)
		}
		if k != nil && t.changed != nil {
			hashes = append(hashes, k.Hashes...)
		}
		t.setKey(name, k)
	}
	for name, p := range c.Policies {
		if p == nil {
			t.removed[name] = now
			continue
		}
		t.policies[name] = p
		delete(t.removed, name)
	}
	for name, since := range t.removed {
		if now.Sub(since) > policyGrace {
			delete(t.policies, name)
			delete(t.removed, name)
		}
	}
	return t.changed, hashes
}

// The caller holds t.mu.
func (t *Table) setKey(name string, k *Key) {
	old := t.byName[name]
	if old != nil {
		delete(t.byName, name)
		for _, h := range old.hashes {
			t.setWith(h, slices.DeleteFunc(slices.Clone(t.with(h)), func(o *record) bool { return o == old }))
		}
		t.release(old)
	}
	if k == nil {
		return
	}
	r := t.newRecord(name, k)
	t.byName[name] = r
	for _, h := range r.hashes {
		all := append(slices.Clip(t.with(h)), r)
		slices.SortFunc(all, (*record).compare)
		t.setWith(h, all)
	}
}

// Permits reports whether all keys in a comma-separated list of Key.reference permit a pool and a
// model. A pool or model of "" is not checked. An unknown key permits nothing.
func (t *Table) Permits(keys, pool, model string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for name := range strings.SplitSeq(keys, ",") {
		k := t.byName[name].key()
		if caller, token := tokenOf(name); token {
			k = caller
		}
		if k == nil || pool != "" && !k.Reaches(pool) || model != "" && !k.Names(model) {
			return false
		}
	}
	return true
}

// Rules returns the named policies' token rules; nil for a policy without one.
func (t *Table) Rules(names []string) []*jwt.Rule {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]*jwt.Rule, len(names))
	for i, name := range names {
		if p := t.policies[name]; p != nil {
			out[i] = p.JWT
		}
	}
	return out
}

// Sharing returns the names ("namespace/name") of the other keys that share a hash with the named
// key.
func (t *Table) Sharing(name string) (names []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	k := t.byName[name]
	if k == nil {
		return nil
	}
	for _, h := range k.hashes {
		for _, o := range t.with(h) {
			if o != k {
				names = append(names, o.id)
			}
		}
	}
	return names
}

// WithModels returns the names ("namespace/name") of keys that permit only some models.
func (t *Table) WithModels() (names []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for name, k := range t.byName {
		if k.rights != nil && k.rights.Models != nil {
			names = append(names, name)
		}
	}
	return names
}

// Unread returns the policies that select the named key, but on whose routes Envoy does not read
// the model. A key that permits only some models is useless there; for other keys, Unread returns
// nil.
func (t *Table) Unread(name string) (policies []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	k := t.byName[name].key()
	if k == nil || k.Models == nil {
		return nil
	}
	for id, p := range t.policies {
		if _, removed := t.removed[id]; !removed && !p.ByModel && p.selects(k) {
			policies = append(policies, id)
		}
	}
	slices.Sort(policies)
	return policies
}

// First returns a namespace's oldest key with the hash, or nil.
func (t *Table) First(hash Hash, namespace string) *Key {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, r := range t.with(hash) {
		if k := r.key(); k.Namespace == namespace {
			return k
		}
	}
	return nil
}

// Instead returns the older key with the same hash that a policy uses in place of the named key
// ("namespace/name"), and the first such policy; nil without one.
func (t *Table) Instead(name string, hash Hash) (first *Key, policy string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r, keys := t.byName[name], t.shared[hash]
	if r == nil || !slices.Contains(keys, r) {
		return nil, ""
	}
	k := r.key()
	for id, p := range t.policies {
		if _, removed := t.removed[id]; removed || !p.selects(k) || policy != "" && policy < id {
			continue
		}
		at := slices.IndexFunc(keys, func(r *record) bool { return p.selects(r.key()) }) // not -1: p selects k
		if keys[at] != r {
			first, policy = keys[at].key(), id
		}
	}
	return first, policy
}

// Shared returns the names of all keys that share a hash with another key.
func (t *Table) Shared() (names []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, keys := range t.shared {
		for _, k := range keys {
			names = append(names, k.id)
		}
	}
	return names
}

var errUnknown = errors.New("the policy is not known here, or not yet")

func (t *Table) named(name string) *Key {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byName[name].key()
}

func (t *Table) isRemoved(policy string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, removed := t.removed[policy]
	return removed
}

func (t *Table) find(hash Hash, names []string) ([]*Key, []*Policy, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.filled || len(names) == 0 {
		return nil, nil, errUnknown
	}
	policies := make([]*Policy, len(names))
	for i, name := range names {
		if policies[i] = t.policies[name]; policies[i] == nil {
			return nil, nil, errUnknown
		}
	}
	var keys []*Key
	for _, r := range t.with(hash) {
		keys = append(keys, r.key())
	}
	return keys, policies, nil
}
