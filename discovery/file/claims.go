package file

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// claim is one definition of an object. Of several, the first by path and line is in use.
type claim struct {
	path   string
	doc    *document
	object *object
}

func (r *Reader) claim(src *source, affected map[report.Ref]bool) {
	for _, doc := range src.docs {
		for _, o := range doc.objects {
			if o.kind == nil || o.ref.Name == "" {
				continue
			}
			affected[o.ref] = true
			r.expand(o.ref)
			list := append(slices.Clone(r.claims[o.ref]), claim{src.path, doc, o})
			slices.SortFunc(list, func(a, b claim) int {
				return cmp.Or(cmp.Compare(a.path, b.path),
					cmp.Compare(a.doc.line+a.object.line, b.doc.line+b.object.line),
					cmp.Compare(a.object.item, b.object.item))
			})
			r.claims[o.ref] = list
		}
	}
}

// affectKept adds to affected the kept objects that a changed file may define: all kept objects of
// a file that has an unidentified document, or that was not read before.
func (r *Reader) affectKept(changed []string, affected map[report.Ref]bool) {
	unnamed := map[string]bool{}
	for _, path := range changed {
		if src := r.files[path]; src == nil || src.unidentified() {
			unnamed[path] = true
		}
	}
	if len(unnamed) == 0 || !r.loaded { // the first read affects all kept objects anyway
		return
	}
	for ref, k := range r.kept {
		if unnamed[k.path] {
			affected[ref] = true
		}
	}
}

func (r *Reader) unclaim(path string, affected map[report.Ref]bool) {
	src := r.files[path]
	if src == nil {
		return
	}
	r.expandAll(src)
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

func (r *Reader) decide(affected map[report.Ref]bool) (ops []store.Op, dirty []report.Ref) {
	var done []settled
	for _, ref := range slices.SortedFunc(maps.Keys(affected), report.Ref.Compare) {
		before, had := r.kept[ref]
		now := r.currentForm(ref, before)
		ops = append(ops, r.markInvalid(ref, now.good == nil && len(r.claims[ref]) > 0)...)
		ops = append(ops, r.closeInvalid(ref, now)...)
		ops = append(ops, r.closeDeployment(ref, now)...)
		switch {
		case now.good == nil && had:
			ops = append(ops, before.kind.table.Delete(ref.Key()))
			delete(r.kept, ref)
			delete(r.policies, ref)
			delete(r.former, ref)
			dirty = append(dirty, ref)
			continue
		case now.good == nil:
			continue
		}
		id := ref.Key()
		if before.good != now.good || !r.loaded {
			ops = append(ops, now.put(id))
		}
		if before.path != now.path || before.good == nil || !before.same(now.good) {
			dirty = append(dirty, ref)
		}
		r.kept[ref] = now
		if now.kind.closed != nil {
			r.policies[ref] = true
		}
		done = append(done, settled{ref, id})
	}
	r.compact(done)
	return ops, dirty
}

func (r *Reader) markInvalid(ref report.Ref, invalid bool) []store.Op {
	if r.invalid[ref] == invalid {
		return nil
	}
	mark := &store.Invalid{
		ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: store.InvalidName(ref.Kind, ref.Name)},
	}
	if !invalid {
		delete(r.invalid, ref)
		return []store.Op{store.Invalids.Delete(store.ID(mark))}
	}
	r.invalid[ref] = true
	return []store.Op{store.Invalids.Put(mark)}
}

func (r *Reader) currentForm(ref report.Ref, before keptObject) keptObject {
	list := r.claims[ref]
	switch {
	case len(list) > 0 && list[0].object.good != nil:
		return keptObject{list[0].object.good, list[0].path}
	case before.good == nil:
	case len(list) > 0:
		return keptObject{before.good, list[0].path}
	case r.files[before.path] != nil && r.files[before.path].unidentified():
		return before
	}
	return keptObject{}
}
