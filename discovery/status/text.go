package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
)

var columns = []string{"Accepted", "ResolvedRefs", "Programmed", "Ready", "Exported"}

var badWhenTrue = []string{"Conflicted", "OverlappingTLSConfig", "PartiallyInvalid"}

type row struct {
	kind    string
	cells   []string
	list    []metav1.Condition
	problem bool
	under   []row
}

// Text prints a document for users: one table for each kind, with the objects that have a problem
// first, then the findings. endpoints, which may be nil, returns how many endpoints of an object
// serve, such as "2/3"; "": unknown.
func Text(out io.Writer, doc *Document, endpoints func(report.Ref) string) error {
	w := &printer{out: out, endpoints: endpoints}
	for len(doc.Objects) > 0 {
		n := slices.IndexFunc(doc.Objects, func(o Object) bool { return o.Kind != doc.Objects[0].Kind })
		if n < 0 {
			n = len(doc.Objects)
		}
		w.table(doc.Objects[:n])
		doc = &Document{Objects: doc.Objects[n:], Findings: doc.Findings}
	}
	w.findings(doc.Findings)
	if !w.printed {
		w.printf("No object has a status yet.\n")
	}
	return w.err
}

type printer struct {
	out       io.Writer
	err       error
	printed   bool
	endpoints func(report.Ref) string
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format, args...)
	}
}

func (p *printer) gap() {
	if p.printed {
		p.printf("\n")
	}
	p.printed = true
}

func (p *printer) table(objects []Object) {
	rows, second := p.tableRows(objects)
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(severity(a), severity(b)) })
	var shown []string
	for _, c := range columns {
		if slices.ContainsFunc(rows, func(r row) bool { return has(r, c) }) {
			shown = append(shown, c)
		}
	}
	p.gap()
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 3, ' ', 0)
	heads := append([]string{objects[0].Kind}, second...)
	for _, c := range shown {
		heads = append(heads, strings.ToUpper(c))
	}
	fmt.Fprintln(w, strings.Join(append(heads, "MESSAGE"), "\t"))
	for _, r := range rows {
		writeRow(w, r, shown)
		for _, u := range r.under {
			writeRow(w, u, shown)
		}
	}
	_ = w.Flush() // cannot fail: w writes into memory
	for line := range strings.Lines(table.String()) {
		p.printf("%s\n", strings.TrimRight(line, " \n"))
	}
}

// tableRows returns the table's rows for objects of one kind. second has the headings of the
// columns after the name.
func (p *printer) tableRows(objects []Object) (rows []row, second []string) {
	withParents := slices.ContainsFunc(objects, func(o Object) bool { return len(o.Status.allParents()) > 0 })
	withListeners := slices.ContainsFunc(objects, func(o Object) bool { return len(o.Status.Listeners) > 0 })
	switch {
	case withParents:
		second = []string{"PARENT"}
	case withListeners:
		second = []string{"ADDRESS", "ROUTES"}
	}
	withEndpoints := p.endpoints != nil && slices.ContainsFunc(objects,
		func(o Object) bool { return p.endpoints(o.Ref) != "" })
	if withEndpoints {
		second = append(second, "ENDPOINTS")
	}
	serving := func(r row, o Object) row {
		if withEndpoints {
			r.cells = append(r.cells, cmp.Or(p.endpoints(o.Ref), "-"))
		}
		return r
	}
	for _, o := range objects {
		r := row{kind: o.Kind, cells: []string{o.Key()}, list: o.Status.Conditions}
		switch {
		case withParents && len(o.Status.allParents()) > 0:
			for _, p := range o.Status.allParents() {
				r := row{cells: []string{o.Key(), parentName(o, p.ParentRef)}, list: p.Conditions,
					problem: bad(p.Conditions)}
				rows = append(rows, serving(r, o))
			}
			continue
		case withParents:
			r.cells = append(r.cells, "none")
		case withListeners:
			var addresses []string
			for _, a := range o.Status.Addresses {
				addresses = append(addresses, a.Value)
			}
			r.cells = append(r.cells, strings.Join(addresses, ","), "")
		}
		r.problem = bad(r.list)
		for _, l := range o.Status.Listeners {
			u := row{cells: []string{"  " + l.Name, "", fmt.Sprint(l.AttachedRoutes)}, list: l.Conditions,
				problem: bad(l.Conditions)}
			r.problem = r.problem || u.problem
			r.under = append(r.under, u)
		}
		rows = append(rows, serving(r, o))
	}
	return rows, second
}

func parentName(o Object, p report.ParentRef) string {
	name := p.Name
	if p.Namespace != "" && p.Namespace != o.Namespace {
		name = objectid.Join(p.Namespace, name)
	}
	if p.Kind != "" && p.Kind != "Gateway" {
		name = p.Kind + " " + name
	}
	if p.SectionName != "" {
		name += "/" + p.SectionName
	}
	if p.Port != 0 {
		name += fmt.Sprintf(":%d", p.Port)
	}
	return name
}

func writeRow(w io.Writer, r row, shown []string) {
	cells := slices.Clone(r.cells)
	for _, c := range shown {
		cells = append(cells, statusOf(r.list, c))
	}
	fmt.Fprintln(w, strings.Join(append(cells, message(r.kind, r.list)), "\t"))
}

func statusOf(list []metav1.Condition, typ string) string {
	for _, c := range list {
		if c.Type == typ {
			return string(c.Status)
		}
	}
	return "-"
}

func has(r row, typ string) bool {
	return statusOf(r.list, typ) != "-" || slices.ContainsFunc(r.under, func(u row) bool { return has(u, typ) })
}

func severity(r row) int {
	if r.problem {
		return 0
	}
	return 1
}

func wrong(c metav1.Condition) bool {
	if slices.Contains(badWhenTrue, c.Type) {
		return c.Status == metav1.ConditionTrue
	}
	return c.Status != metav1.ConditionTrue
}

func bad(list []metav1.Condition) bool { return slices.ContainsFunc(list, wrong) }

// Reasons lists the distinct reasons of the conditions that indicate a problem, sorted.
func Reasons(doc *Document) []string {
	var out []string
	add := func(list []metav1.Condition) {
		for _, c := range list {
			if wrong(c) {
				out = append(out, c.Reason)
			}
		}
	}
	for _, o := range doc.Objects {
		add(o.Status.Conditions)
		for _, l := range o.Status.Listeners {
			add(l.Conditions)
		}
		for _, p := range o.Status.allParents() {
			add(p.Conditions)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func message(kind string, list []metav1.Condition) string {
	var parts []string
	for _, c := range list {
		if !wrong(c) && (kind != "ModelDeployment" || c.Type != "Ready") { // the reason of this condition is the phase
			continue
		}
		text := c.Reason
		if c.Message != "" {
			text += ": " + strings.Join(strings.Fields(c.Message), " ")
		}
		if !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

func (p *printer) findings(list []report.Finding) {
	if len(list) == 0 {
		return
	}
	p.gap()
	for _, f := range list {
		p.printf("%-8s %s\n", f.Severity, f)
	}
}
