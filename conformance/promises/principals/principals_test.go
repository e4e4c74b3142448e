package principals

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

var binaries struct{ penstock, envoy string }

func TestMain(m *testing.M) {
	os.Exit(func() int {
		ctx := context.Background()
		dir, err := os.MkdirTemp("", "principals")
		if err == nil {
			defer func() { _ = os.RemoveAll(dir) }()
			binaries.envoy, err = process.Envoy(ctx)
		}
		if err == nil {
			binaries.penstock, err = process.Penstock(ctx, dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

type principal struct {
	name   string
	fields func(testing.TB) []field
}

var principals = []principal{tenant, hub, hubMember, member, remotePicker, modelServerOf, client}

// A new field of a type needs a row in the table, and a row needs a field. This test starts no
// program.
func TestPrincipals_EveryCellIsDecided(t *testing.T) {
	table := readMatrix(t)
	for _, p := range principals {
		rows := table.of(p.name)
		for _, c := range p.cells(t) {
			if _, ok := rows[c]; !ok && !rewriting() {
				t.Errorf("%s has no row in matrix.tsv: doc.go states how to decide it", c)
			}
			delete(rows, c)
		}
		for c := range rows {
			if !rewriting() {
				t.Errorf("%s in matrix.tsv is a row of no field", c)
			}
		}
	}
	for _, name := range table.principals() {
		if !isPrincipal(name) {
			t.Errorf("matrix.tsv has rows of %q, which is no principal", name)
		}
	}
}

func isPrincipal(name string) bool {
	for _, p := range principals {
		if p.name == name {
			return true
		}
	}
	return false
}

func (p principal) cells(t testing.TB) []cell {
	var out []cell
	for _, f := range p.fields(t) {
		for _, v := range values(f.class) {
			out = append(out, cell{p.name, f.path, v})
		}
	}
	return out
}
