package file

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// claim is one document's word on one object. Of several the first by path and line counts.
type claim struct {
	path   string
	doc    *document
	object *object
}

// claim enters what a source says.
func (r *Reader) claim(src *source, affected map[report.Ref]bool) {
	for _, doc := range src.docs {
		for _, o := range doc.objects {
			if o.kind == nil || o.ref.Name == "" {
				continue
			}
			affected[o.ref] = true
			list := append(slices.Clone(r.claims[o.ref]), claim{src.path, doc, o})
			slices.SortFunc(list, func(a, b claim) int {
				return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.doc.line+a.object.line, b.doc.line+b.object.line),
					cmp.Compare(a.object.item, b.object.item))
			})
			r.claims[o.ref] = list
		}
	}
}

// disown takes back what the file at path says, and names every object that this may concern.
func (r *Reader) disown(path string, affected map[report.Ref]bool) {
	for ref := range r.keptBy[path] {
		affected[ref] = true
	}
	src := r.files[path]
	if src == nil {
		return
	}
	for _, doc := range src.docs {
		for _, o := range doc.objects {
			list := slices.DeleteFunc(slices.Clone(r.claims[o.ref]), func(c claim) bool { return c.path == path })
			if affected[o.ref] = true; len(list) == 0 {
				delete(r.claims, o.ref)
			} else {
				r.claims[o.ref] = list
			}
		}
	}
}

// decide says what the store is to do about objects, and of which ones the last good form is another now.
func (r *Reader) decide(affected map[report.Ref]bool) (ops []store.Op, dirty []report.Ref) {
	for _, ref := range slices.SortedFunc(maps.Keys(affected), report.Ref.Compare) {
		before, had := r.kept[ref]
		now := r.verdict(ref, before)
		if had && before.path != now.path {
			delete(r.keptBy[before.path], ref)
		}
		switch {
		case now.good == nil && had:
			ops = append(ops, before.kind.table.Delete(ref.Key()))
			delete(r.kept, ref)
			dirty = append(dirty, ref)
			continue
		case now.good == nil:
			continue
		case before.good != now.good || !r.loaded:
			ops = append(ops, now.kind.table.PutObject(now.obj))
		}
		if before.path != now.path || !bytes.Equal(before.form, now.form) {
			dirty = append(dirty, ref)
		}
		r.keep(ref, now)
	}
	return ops, dirty
}

// verdict is the form of an object that counts now; without one, the object is to go.
func (r *Reader) verdict(ref report.Ref, before keptObject) keptObject {
	list := r.claims[ref]
	switch {
	case len(list) > 0 && list[0].object.good != nil:
		return keptObject{list[0].object.good, list[0].path}
	case before.good == nil:
	case len(list) > 0: // wrong as written
		return keptObject{before.good, list[0].path}
	case r.files[before.path] != nil && r.files[before.path].nameless(): // its text may be the one that nobody can read
		return before
	}
	return keptObject{}
}
