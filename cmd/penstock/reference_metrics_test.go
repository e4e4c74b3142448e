package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type metricRow struct {
	name, typ, help string
	labels          []string
}

func metricsSection(t *testing.T) string {
	t.Helper()
	rows := ""
	for _, m := range knownMetrics(t) {
		rows += fmt.Sprintf("| `%s` | %s | %s | %s |\n", m.name, m.typ, inCode(m.labels), oneLine(m.help))
	}
	return table("Metric | Type | Labels | Help", rows)
}

func knownMetrics(t *testing.T) []metricRow {
	t.Helper()
	var rows []metricRow
	for _, files := range packages(t) {
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				sel, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || !isPackage(sel.X, "prometheus") || !strings.HasPrefix(sel.Sel.Name, "New") ||
					len(call.Args) == 0 {
					return true
				}
				for _, scope := range scopes(f, call) {
					if m := metricOf(sel.Sel.Name, call.Args, scope); strings.HasPrefix(m.name, "penstock_") {
						rows = append(rows, m)
					}
				}
				return true
			})
		}
	}
	if len(rows) < 10 {
		t.Fatalf("found %d metrics: this test looks in the wrong place", len(rows))
	}
	slices.SortFunc(rows, func(a, b metricRow) int { return cmp.Compare(a.name, b.name) })
	return rows
}

func metricOf(constructor string, args []ast.Expr, scope map[string]string) (m metricRow) {
	if constructor == "NewDesc" && len(args) == 4 {
		m = metricRow{name: evaluate(args[0], scope), typ: "gauge", help: evaluate(args[1], scope),
			labels: labelsOf(args[2])}
		if strings.HasSuffix(m.name, "_total") {
			m.typ = "counter"
		}
		return m
	}
	opts, ok := args[0].(*ast.CompositeLit)
	if !ok {
		return m
	}
	for _, e := range opts.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok && isPackage(kv.Key, "Name") {
			m.name = evaluate(kv.Value, scope)
		} else if ok && isPackage(kv.Key, "Help") {
			m.help = evaluate(kv.Value, scope)
		}
	}
	if len(args) > 1 {
		m.labels = labelsOf(args[1])
	}
	m.typ = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(constructor, "New"), "Vec"),
		"Func"))
	return m
}

// scopes returns the parameter values of the function literal around call: a map for each call of
// the literal, or an empty one.
func scopes(f *ast.File, call *ast.CallExpr) (out []map[string]string) {
	ast.Inspect(f, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Lhs) != 1 || len(assign.Rhs) != 1 {
			return true
		}
		name, named := assign.Lhs[0].(*ast.Ident)
		fn, literal := assign.Rhs[0].(*ast.FuncLit)
		if !named || !literal || call.Pos() < fn.Pos() || call.End() > fn.End() {
			return true
		}
		ast.Inspect(f, func(n ast.Node) bool {
			use, ok := n.(*ast.CallExpr)
			if !ok || !isPackage(use.Fun, name.Name) {
				return true
			}
			scope, i := map[string]string{}, 0
			for _, field := range fn.Type.Params.List {
				for _, param := range field.Names {
					scope[param.Name] = stringAt(use.Args, i)
					i++
				}
			}
			out = append(out, scope)
			return true
		})
		return true
	})
	if out == nil {
		out = []map[string]string{nil}
	}
	return out
}

func evaluate(e ast.Expr, scope map[string]string) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return evaluate(e.X, scope) + evaluate(e.Y, scope)
	case *ast.Ident:
		return scope[e.Name]
	}
	return stringOf(e)
}

func labelsOf(e ast.Expr) (out []string) {
	lit, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	for _, label := range lit.Elts {
		out = append(out, stringOf(label))
	}
	return out
}

// resultsSection renders picks' results and error reasons, from package picker's constants and
// their comments.
func resultsSection(t *testing.T) string {
	t.Helper()
	rows := ""
	for _, r := range pickResults(t) {
		if r.meaning == "" {
			t.Errorf("package picker: the constant of %q has no comment", r.value)
		}
		rows += fmt.Sprintf("| `%s` | %s | %s |\n", r.value, r.status, oneLine(r.meaning))
	}
	return table("Result | Status | Meaning", rows)
}

// pickResult is a pick's result. status is the HTTP status of an error; "" for a success.
type pickResult struct{ value, status, meaning string }

func pickResults(t *testing.T) (out []pickResult) {
	t.Helper()
	for _, f := range parsePackage(t, filepath.Join(root, "picker")) {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			name, r := spec.Names[0].Name, pickResult{value: stringAt(spec.Values, 0)}
			if r.value == "" || !strings.HasPrefix(name, "Reason") && !strings.HasPrefix(name, "result") {
				return true
			}
			r.meaning = strings.TrimSpace(cmp.Or(spec.Comment.Text(), spec.Doc.Text()))
			if status, meaning, found := strings.Cut(r.meaning, ": "); found && len(status) == 3 {
				r.status, r.meaning = status, meaning
			}
			out = append(out, r)
			return true
		})
	}
	if len(out) < 10 {
		t.Fatalf("found %d results of picks in package picker: this test looks in the wrong place", len(out))
	}
	return out
}
