package file

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/penstock-project/penstock/discovery/report"
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

// decide says what the store is to do about objects, and whose files' last good forms changed.
func (r *Reader) decide(affected map[report.Ref]bool) (ops []store.Op, dirty map[string]bool) {
	dirty = map[string]bool{}
	for _, ref := range slices.SortedFunc(maps.Keys(affected), report.Ref.Compare) {
		before, had := r.kept[ref]
		list := r.claims[ref]
		now := before
		switch {
		case len(list) > 0 && list[0].object.good != nil:
			now = keptObject{list[0].object.good, list[0].path}
		case len(list) > 0:
			now.path = list[0].path // wrong as written: the last good form, if any, stays
		case had && r.files[before.path] != nil && r.files[before.path].nameless():
			// its text may be the one that nobody can read: it stays
		default:
			now = keptObject{}
		}
		if had && (before.path != now.path || now.good == nil) {
			dirty[before.path] = true
			delete(r.keptBy[before.path], ref)
		}
		if now.good == nil {
			if had {
				ops = append(ops, before.kind.table.Delete(ref.Key()))
			}
			delete(r.kept, ref)
			continue
		}
		if before.good != now.good || !r.loaded {
			ops = append(ops, now.kind.table.PutObject(now.obj))
		}
		if !had || before.path != now.path || !bytes.Equal(before.form, now.form) {
			dirty[now.path] = true
		}
		r.kept[ref] = now
		if r.keptBy[now.path] == nil {
			r.keptBy[now.path] = map[report.Ref]bool{}
		}
		r.keptBy[now.path][ref] = true
	}
	return ops, dirty
}
