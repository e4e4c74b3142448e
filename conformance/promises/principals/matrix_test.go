package principals

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

type outcome string

const (
	denied  outcome = "denied"
	bounded outcome = "bounded"
	finding outcome = "finding"

	// The table must not contain these outcomes.
	harmful outcome = "harmful" // the victim loses something, or Envoy rejects a resource
	silent  outcome = "silent"  // the value has no effect, and no finding reports the reason
)

type cell struct {
	principal, field string
	value            value
}

func (c cell) String() string { return fmt.Sprintf("%s, %s, %s", c.principal, c.field, c.value) }

const matrixFile = "matrix.tsv"

func rewriting() bool { return os.Getenv("PENSTOCK_GOLDEN") == "rewrite" }

type matrix map[cell]outcome

func readMatrix(t testing.TB) matrix {
	t.Helper()
	raw, err := os.ReadFile(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	table := matrix{}
	for i, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, "\t")
		if len(parts) != 4 || !slices.Contains([]outcome{denied, bounded, finding}, outcome(parts[3])) {
			t.Fatalf("%s:%d: write PRINCIPAL FIELD VALUE denied|bounded|finding, with tabs between", matrixFile, i+1)
		}
		c := cell{parts[0], parts[1], value(parts[2])}
		if _, twice := table[c]; twice {
			t.Fatalf("%s:%d: a second row of %s", matrixFile, i+1, c)
		}
		table[c] = outcome(parts[3])
	}
	return table
}

func (m matrix) of(principal string) matrix {
	out := maps.Clone(m)
	maps.DeleteFunc(out, func(c cell, _ outcome) bool { return c.principal != principal })
	return out
}

func (m matrix) principals() []string {
	var out []string
	for c := range m {
		out = append(out, c.principal)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// rewrite replaces a principal's rows. Rows are in the order of principals and cells.
func rewrite(t testing.TB, p principal, observed matrix) {
	t.Helper()
	table := readMatrix(t)
	var b strings.Builder
	b.WriteString("# principal\tfield\tvalue\toutcome; doc.go explains them, and how to rewrite the table\n")
	for _, other := range principals {
		rows := table.of(other.name)
		if other.name == p.name {
			rows = observed
		}
		for _, c := range other.cells(t) {
			if o, ok := rows[c]; ok {
				fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", c.principal, c.field, c.value, o)
			}
		}
	}
	if err := os.WriteFile(matrixFile, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

type run struct {
	t        testing.TB
	rig      *rig
	p        principal
	table    matrix
	observed matrix
}

func begin(t testing.TB, r *rig, p principal) *run {
	return &run{t: t, rig: r, p: p, table: readMatrix(t).of(p.name), observed: matrix{}}
}

func (r *run) cells() []cell {
	selected := os.Getenv("CELLS")
	return slices.DeleteFunc(r.p.cells(r.t), func(c cell) bool { return !strings.HasPrefix(c.field, selected) })
}

// see records a cell's outcome. An outcome that differs from the table's fails the test, with the
// evidence.
func (r *run) see(c cell, o outcome, evidence string) {
	r.t.Helper()
	r.observed[c] = o
	if os.Getenv("CELLS") != "" {
		r.t.Logf("%s: %s: %s", c, o, evidence)
	}
	if want := r.table[c]; o == harmful || o == silent || want != o && !rewriting() {
		r.t.Errorf("%s: the outcome is %q, and the table has %q: %s", c, o, want, evidence)
	}
}

// end ends the victim's requests, and rewrites the table if requested. A cell without an outcome
// fails the test.
func (r *run) end() {
	r.t.Helper()
	if r.rig != nil {
		r.rig.end()
	}
	for _, c := range r.cells() {
		if _, ok := r.observed[c]; !ok {
			r.t.Errorf("%s did not run", c)
		}
	}
	if rewriting() && !r.t.Failed() {
		for c, o := range r.table {
			if _, ok := r.observed[c]; !ok && os.Getenv("CELLS") != "" {
				r.observed[c] = o
			}
		}
		rewrite(r.t, r.p, r.observed)
	}
}
