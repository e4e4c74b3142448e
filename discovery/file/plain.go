package file

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// digest is a hash of a document's text. The text itself is read again from the file when a line
// number is needed.
type digest [16]byte

func digestOf(text string) digest {
	sum := sha256.Sum256([]byte(text))
	return digest(sum[:16])
}

// plainDocument is the compact form of a document with one valid object that no other document
// defines. Almost all documents are plain. For 100,000 objects, this form saves 60 MiB. If the
// document changes, or another document defines its object, it is expanded to a document.
type plainDocument struct {
	digest digest
	kind   *kind // nil: the position has no document
	packed any   // the object in the form of the store, which shares the value
	line   int32 // as document.line
	first  int32 // as object.line
}

type spot struct {
	src *source
	at  int32
}

func (p *plainDocument) ref() report.Ref { return (&good{kind: p.kind, obj: p.packed}).ref() }

func (p *plainDocument) claim(path string) claim {
	o := &object{ref: p.ref(), kind: p.kind, line: int(p.first), item: -1, good: &good{kind: p.kind, obj: p.packed}}
	return claim{path, &document{digest: p.digest, line: int(p.line), objects: []*object{o}}, o}
}

// plainOf returns an object's definition from its plain document; false: it has no plain document.
func (r *Reader) plainOf(ref report.Ref) (c claim, ok bool) {
	s, ok := r.plains[r.catalog.of(ref)][ref.Key()]
	if !ok {
		return claim{}, false
	}
	return s.src.plains[s.at].claim(s.src.path), true
}

// keptOf returns the version of an object that the store has.
func (r *Reader) keptOf(ref report.Ref) (keptObject, bool) {
	if c, ok := r.plainOf(ref); ok {
		return keptObject{c.object.good, c.path}, true
	}
	k, ok := r.kept[ref]
	return k, ok
}

// persistedRefs returns the refs of the objects in the state file: the objects in the store, and
// the policies with former targets.
func (r *Reader) persistedRefs() []report.Ref {
	refs := slices.Collect(maps.Keys(r.kept))
	for ref := range r.former {
		if _, kept := r.kept[ref]; !kept {
			refs = append(refs, ref)
		}
	}
	for k, spots := range r.plains {
		for id := range spots {
			refs = append(refs, store.RefOf(k.table, id))
		}
	}
	slices.SortFunc(refs, report.Ref.Compare)
	return refs
}

func (r *Reader) expand(ref report.Ref) {
	k := r.catalog.of(ref)
	if s, ok := r.plains[k][ref.Key()]; ok {
		r.expandAt(s.src, s.at)
		s.src.free = append(s.src.free, s.at)
		s.src.sort()
	}
}

func (r *Reader) expandAll(src *source) {
	for at := range src.plains {
		if src.plains[at].kind != nil {
			r.expandAt(src, int32(at))
		}
	}
	src.plains, src.free = nil, nil
	src.sort()
}

func (r *Reader) expandAt(src *source, at int32) {
	p := &src.plains[at]
	c := p.claim(src.path)
	src.docs = append(src.docs, c.doc)
	r.claims[c.object.ref] = []claim{c}
	r.kept[c.object.ref] = keptObject{c.object.good, src.path}
	delete(r.plains[p.kind], c.object.ref.Key())
	*p = plainDocument{}
}

func (s *source) sort() {
	slices.SortFunc(s.docs, func(a, b *document) int { return cmp.Compare(a.line, b.line) })
}

// settled is an object whose definition in use has been decided. id is its key in the store.
type settled struct {
	ref report.Ref
	id  string
}

// compact converts documents of the listed objects to plain documents, where possible.
func (r *Reader) compact(list []settled) {
	compacted, sources := map[*document]bool{}, map[*source]bool{}
	for _, s := range list {
		claims := r.claims[s.ref]
		if len(claims) != 1 || !claims[0].isPlain(r.kept[s.ref]) {
			continue
		}
		c, src := claims[0], r.files[claims[0].path]
		p := plainDocument{c.doc.digest, c.object.kind, c.object.good.obj, int32(c.doc.line), int32(c.object.line)}
		at := int32(len(src.plains))
		if n := len(src.free); n > 0 {
			at, src.free = src.free[n-1], src.free[:n-1]
			src.plains[at] = p
		} else {
			src.plains = append(src.plains, p)
		}
		if r.plains[p.kind] == nil {
			r.plains[p.kind] = map[string]spot{}
		}
		r.plains[p.kind][s.id] = spot{src, at}
		delete(r.claims, s.ref)
		delete(r.kept, s.ref)
		compacted[c.doc], sources[src] = true, true
	}
	for src := range sources {
		src.docs = slices.Clone(slices.DeleteFunc(src.docs, func(d *document) bool { return compacted[d] }))
		if cap(src.plains) > len(src.plains)+len(src.plains)/8 {
			src.plains = slices.Clone(src.plains)
		}
	}
	if len(compacted) > 1000 { // Go's maps never shrink, so copies free memory
		r.claims, r.kept = maps.Collect(maps.All(r.claims)), maps.Collect(maps.All(r.kept))
	}
}

func (c claim) isPlain(kept keptObject) bool {
	o, doc := c.object, c.doc
	return o.good != nil && kept.good == o.good && kept.path == c.path && o.good.raw == nil && o.kind.closed == nil &&
		o.item < 0 && len(o.mistakes)+len(o.moved)+len(doc.mistakes) == 0 && len(doc.objects) == 1 && !doc.unidentified
}

// textOf reads a document's text from its file again; "": the file no longer has this text. The
// caller holds r.parsing.
func (r *Reader) textOf(path string, d digest) string {
	info, err := r.again.stat(path)
	if err != nil {
		return ""
	}
	if r.text.path != path || !r.text.mark.same(info) {
		raw, err := r.again.readFile(path)
		if err != nil {
			return ""
		}
		r.text.path, r.text.mark, r.text.docs = path, signature{info}, map[digest]string{}
		text, _ := decodeText(raw)
		for _, doc := range split(text) {
			r.text.docs[digestOf(doc.text)] = doc.text
		}
	}
	return r.text.docs[d]
}
