package authz

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/penstock-project/penstock/discovery/objectid"
)

type record struct {
	id               string // "namespace/name"
	caller           string
	created, expires int64 // Unix time in seconds
	hashes           []Hash
	rights           *rights // nil means zero
}

// rights are the fields of a Key that many keys have in common. Keys with equal rights share them.
type rights struct {
	Labels    labels.Set
	Groups    []string
	Objective string
	Models    []string
	Pools     []string
	Disabled  bool

	text string // JSON of the fields above: the key in Table.rights
	used int
}

// The caller holds t.mu.
func (t *Table) newRecord(id string, k *Key) *record {
	r := &record{id: id, caller: id, created: k.Created.Unix(), expires: k.Expires.Unix(), hashes: k.Hashes}
	if k.Caller != id {
		r.caller = unique.Make(k.Caller).Value()
	}
	own := rights{Labels: k.Labels, Groups: k.Groups, Objective: k.Objective, Models: k.Models, Pools: k.Pools,
		Disabled: k.Disabled}
	// JSON distinguishes an empty list of models, which permits none, from nil.
	text, _ := json.Marshal(own) // cannot fail: only texts
	if string(text) == noRights {
		return r
	}
	if r.rights = t.rights[string(text)]; r.rights == nil {
		own.text = string(text)
		r.rights = &own
		t.rights[own.text] = r.rights
	}
	r.rights.used++
	return r
}

var noRights = func() string {
	text, _ := json.Marshal(rights{})
	return string(text)
}()

// The caller holds t.mu.
func (t *Table) release(r *record) {
	if r.rights == nil {
		return
	}
	if r.rights.used--; r.rights.used == 0 {
		delete(t.rights, r.rights.text)
	}
}

func (r *record) key() *Key {
	if r == nil {
		return nil
	}
	namespace, name, _ := objectid.Split(r.id)
	k := &Key{Namespace: namespace, Name: name, Caller: r.caller, Created: time.Unix(r.created, 0).UTC(),
		Expires: time.Unix(r.expires, 0).UTC(), Hashes: r.hashes}
	if s := r.rights; s != nil {
		k.Labels, k.Groups, k.Objective, k.Models, k.Pools, k.Disabled = s.Labels, s.Groups, s.Objective, s.Models,
			s.Pools, s.Disabled
	}
	return k
}

func (r *record) compare(o *record) int {
	namespace, name, _ := objectid.Split(r.id)
	otherNamespace, otherName, _ := objectid.Split(o.id)
	return cmp.Or(cmp.Compare(r.created, o.created), strings.Compare(namespace, otherNamespace),
		strings.Compare(name, otherName))
}

// with returns the keys that have a hash, oldest first. The caller holds t.mu.
func (t *Table) with(h Hash) []*record {
	if all := t.shared[h]; all != nil {
		return all
	}
	if r := t.byHash[h]; r != nil {
		return []*record{r}
	}
	return nil
}

// The caller holds t.mu.
func (t *Table) setWith(h Hash, all []*record) {
	delete(t.shared, h)
	if len(all) == 0 {
		delete(t.byHash, h)
		return
	}
	t.byHash[h] = all[0]
	if len(all) > 1 {
		t.shared[h] = all
	}
}
