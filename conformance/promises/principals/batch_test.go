package principals

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// placed is a cell's test objects in a separate namespace: a sample whose object has the cell's
// value.
type placed struct {
	cell
	namespace string
	file      string
	objects   []map[string]any
	changed   int // index of the object that has the value
	first     int // the cell's first line in the file
	last      int
}

// unsupported is a file of objects that Penstock reports whatever their fields' values.
const unsupported = "unsupported.yaml"

const cellsFile = "cells.yaml"

const batch = 250

type author struct {
	*run
	tables  []store.Kind
	limits  func(path string) *apiextensionsv1.JSONSchemaProps
	samples []sample
	fields  map[string]field
}

// apply runs all cells of a principal and records the outcomes. First it checks that the samples
// cause no finding: the effect of a value would be hidden otherwise.
func (r *run) apply(folder string, tables []store.Kind) {
	r.t.Helper()
	a := &author{
		run: r, tables: tables, limits: limits(r.t), samples: readSamples(r.t, folder), fields: map[string]field{},
	}
	for _, f := range r.p.fields(r.t) {
		a.fields[f.path] = f
	}
	var originals []*placed
	for i, s := range a.samples {
		ns := fmt.Sprintf("writer-s%04d", i)
		p := &placed{namespace: ns, file: s.file, objects: s.in(ns, r.rig.gateway), changed: -1}
		originals = append(originals, p)
	}
	own := map[string][]string{} // reports about each sample
	for p, evidence := range a.together(originals, nil) {
		switch wrong := strings.Contains(evidence.text(), "error: "); {
		case filepath.Base(p.file) == unsupported:
			if !wrong {
				r.t.Errorf("%s has no error: move its objects to another file", p.file)
			}
		case wrong:
			r.t.Errorf("%s itself has an error: %s", p.file, evidence.text())
		default:
			own[p.file] = evidence.found
		}
	}
	var cells []*placed
	for i, c := range r.cells() {
		if p := a.place(c, fmt.Sprintf("writer-%05d", i)); p != nil {
			cells = append(cells, p)
		}
	}
	for some := range slices.Chunk(cells, batch) {
		for p, evidence := range a.together(some, own) {
			r.see(p.cell, evidence.outcome, evidence.text())
		}
	}
}

// place makes a cell's objects from the sample that contains the longest part of the field's path.
// A sample must have the field's parent.
func (a *author) place(c cell, namespace string) *placed {
	a.t.Helper()
	f := a.fields[c.field]
	kindName, steps := split(c.field)
	best, file, object := -1, 0, 0
	for i, s := range a.samples {
		for j, o := range s.objects {
			if n := 2 * reach(o, steps); o["kind"] == kindName {
				if refOf(o).Name == "mine" { // prefer the object named mine
					n++
				}
				if n > best {
					best, file, object = n, i, j
				}
			}
		}
	}
	if best/2 < len(steps)-1 {
		a.t.Errorf("%s: no sample of %s has the field's parent: add it", c.field, kindName)
		return nil
	}
	s := a.samples[file]
	p := &placed{
		cell: c, namespace: namespace, file: s.file, objects: s.in(namespace, a.rig.gateway), changed: object,
	}
	o := p.objects[object]
	set(o, steps, literal(f, c.value, a.limits(c.field), current(o, steps)))
	if parent := steps[:len(steps)-1]; c.value == anothersNamespace { // the victim's object, in its namespace
		set(o, append(slices.Clone(parent), "name"), "victim")
	}
	return p
}

func current(v any, steps []string) any {
	for i, s := range steps {
		var next any
		best := -1
		for _, child := range children(v, s) {
			if n := reach(child, steps[i+1:]); n > best {
				best, next = n, child
			}
		}
		if best < 0 {
			return nil
		}
		v = next
	}
	return v
}

type evidence struct {
	outcome outcome
	found   []string
}

func (e evidence) text() string { return strings.Join(e.found, "\n") }

// together applies cells at once, waits until Envoy has them, checks the victim, and observes the
// outcomes. own has the reports about the unchanged samples.
func (a *author) together(cells []*placed, own map[string][]string) map[*placed]evidence {
	a.t.Helper()
	var text strings.Builder
	line := 1
	for _, p := range cells {
		p.first = line
		for _, o := range p.objects {
			raw, err := json.Marshal(o)
			if err != nil {
				a.t.Fatal(err)
			}
			text.Write(append(raw, "\n---\n"...))
			line += 2
		}
		p.last = line - 1
	}
	a.rig.settle(cellsFile, text.String())
	if changed := a.rig.changed(); changed != "" {
		return a.suspects(cells, own, changed)
	}
	doc := a.rig.status()
	stored := a.stored()
	out := map[*placed]evidence{}
	for _, p := range cells {
		out[p] = p.judge(doc, stored, numbered(cellsFile, a.rig.marker), own[p.file])
	}
	return out
}

// suspects finds cells of a batch that change the victim's configuration, or that Envoy rejects. It
// halves the batch repeatedly.
func (a *author) suspects(cells []*placed, own map[string][]string, changed string) map[*placed]evidence {
	a.t.Helper()
	if len(cells) == 1 {
		return map[*placed]evidence{cells[0]: {harmful, []string{changed}}}
	}
	half := len(cells) / 2
	out := a.together(cells[:half], own)
	maps.Copy(out, a.together(cells[half:], own))
	for _, e := range out {
		if e.outcome == harmful {
			return out
		}
	}
	a.t.Errorf("%s … %s together, none of them alone: %s", cells[0], cells[len(cells)-1], changed)
	return out
}

func (a *author) stored() map[report.Ref]bool {
	out := map[report.Ref]bool{}
	for _, table := range a.tables {
		var page struct {
			Objects []struct {
				Metadata struct{ Namespace, Name string }
			}
		}
		a.rig.get(local(a.rig.http), "/debug/store/"+table.Kind(), &page)
		for _, o := range page.Objects {
			out[report.Ref{Kind: table.Kind(), Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}] = true
		}
	}
	return out
}

func (p *placed) judge(doc document, stored map[report.Ref]bool, file string, own []string) evidence {
	var found []string
	add := func(text string) {
		text = strings.ReplaceAll(text, p.namespace, "$NS")
		if !slices.Contains(own, text) {
			found = append(found, text)
		}
	}
	for _, f := range doc.Findings {
		if (f.Owner.Namespace == p.namespace || p.owns(file, f.Source)) && !momentary(f) {
			f.Source = ""
			add(fmt.Sprintf("%s: %s", f.Severity, f))
		}
	}
	for i := range doc.Objects {
		if doc.Objects[i].Namespace == p.namespace {
			for _, text := range doc.negatives(i) {
				add(text)
			}
		}
	}
	switch {
	case p.changed < 0 || stored[refOf(p.objects[p.changed])]:
		if len(found) > 0 {
			return evidence{finding, found}
		}
		return evidence{bounded, nil}
	case len(found) == 0:
		return evidence{silent, []string{"the object is not stored, and no finding states why"}}
	}
	return evidence{denied, found}
}

// momentary reports whether a finding depends on whether servers answer. The samples' servers do
// not exist, and a cell may end before Penstock detects this.
func momentary(f report.Finding) bool { return strings.Contains(f.Problem, "fails: ") }

// owns reports whether a source ("PATH:LINE") is within the cell's part of a file.
func (p *placed) owns(file, source string) bool {
	_, number, ok := strings.Cut(source, file+":")
	line, err := strconv.Atoi(number)
	return ok && err == nil && p.first <= line && line <= p.last
}

func refOf(o map[string]any) report.Ref {
	metadata, _ := o["metadata"].(map[string]any)
	text := func(v any) string { return fmt.Sprint(v) }
	return report.Ref{Kind: text(o["kind"]), Namespace: text(metadata["namespace"]), Name: text(metadata["name"])}
}
