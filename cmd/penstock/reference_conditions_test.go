package main

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

type conditionWords struct {
	types   map[string]bool
	reasons map[reasonOf]string // a folder in which the code uses the reason
}

// reasonOf identifies a reason. family is the Go type of Gateway API's constant; "" means a plain
// string.
type reasonOf struct{ family, reason string }

var families = map[string][]string{
	"GatewayClassConditionReason":  {"GatewayClass"},
	"GatewayConditionReason":       {"Gateway", "EnvoyFleet", "AccessPolicy"},
	"ListenerConditionReason":      {"Gateway listener"},
	"ListenerEntryConditionReason": {"Gateway listener"},
	"ListenerSetConditionReason":   {"ListenerSet"},
	"RouteConditionReason":         {"Route"},
	"PolicyConditionReason":        {"BackendTLSPolicy"},
}

// knownConditions finds the conditions' types and reasons in the source code.
func knownConditions(t *testing.T) conditionWords {
	t.Helper()
	api := gatewayConstants(t)
	out := conditionWords{types: map[string]bool{}, reasons: map[reasonOf]string{}}
	all := packages(t)
	// "package.function" -> indexes of string parameters named reason
	reasonParams := map[string][]int{}
	for _, files := range all {
		for _, f := range files {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
					reasonParams[f.Name.Name+"."+fn.Name.Name] = paramsNamed(fn.Type, "reason")
				}
			}
		}
	}
	for dir, files := range all {
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if c, ok := api[n.Sel.Name]; ok && isPackage(n.X, "gatewayv1") {
						out.add(c, dir)
					}
				case *ast.ValueSpec:
					for i, name := range n.Names {
						if value := stringAt(n.Values, i); value != "" {
							out.add(apiConstant{typ: constantType(n.Type, name.Name), value: value}, dir)
						}
					}
				case *ast.CompositeLit:
					out.literal(n, dir)
				case *ast.AssignStmt:
					for i, left := range n.Lhs {
						sel, field := left.(*ast.SelectorExpr)
						id, variable := left.(*ast.Ident)
						if field && sel.Sel.Name == "Reason" || variable && id.Name == "reason" {
							out.plain(stringAt(n.Rhs, i), dir)
						}
					}
				case *ast.CallExpr:
					for _, i := range reasonParams[calledFunction(f, n)] {
						out.plain(stringAt(n.Args, i), dir)
					}
				}
				return true
			})
		}
	}
	return out
}

func calledFunction(f *ast.File, call *ast.CallExpr) string {
	switch fn := call.Fun.(type) {
	case *ast.Ident:
		return f.Name.Name + "." + fn.Name
	case *ast.SelectorExpr:
		if pkg, ok := fn.X.(*ast.Ident); ok {
			return pkg.Name + "." + fn.Sel.Name
		}
	}
	return ""
}

func (w *conditionWords) add(c apiConstant, dir string) {
	switch {
	case strings.HasSuffix(c.typ, "ConditionType"):
		w.types[c.value] = true
	case strings.HasSuffix(c.typ, "ConditionReason"):
		w.reasons[reasonOf{c.typ, c.value}] = dir
	case c.typ == "reason":
		w.plain(c.value, dir)
	}
}

// plain records a reason in CamelCase. Other strings are not reasons of conditions.
func (w *conditionWords) plain(reason, dir string) {
	if reason != "" && reason[0] >= 'A' && reason[0] <= 'Z' && !strings.Contains(reason, " ") {
		w.reasons[reasonOf{"", reason}] = dir
	}
}

// literal records the strings in a literal such as report.Condition{Type: "Accepted", Reason:
// "Accepted"}.
func (w *conditionWords) literal(lit *ast.CompositeLit, dir string) {
	fields := map[string]ast.Expr{}
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok {
				fields[key.Name] = kv.Value
			}
		}
	}
	reason, found := fields["Reason"]
	if !found {
		return
	}
	w.plain(stringOf(reason), dir)
	if typ, ok := fields["Type"]; ok && stringOf(typ) != "" {
		w.types[stringOf(typ)] = true
	}
}

type apiConstant struct{ typ, value string }

// constantType returns a constant's declared type. An untyped constant's name decides whether it is
// a reason or a condition's type.
func constantType(declared ast.Expr, name string) string {
	switch d := declared.(type) {
	case *ast.SelectorExpr:
		return d.Sel.Name
	case *ast.Ident:
		return d.Name
	case nil:
		name = strings.ToLower(name)
		if strings.HasSuffix(name, "reason") {
			return "reason"
		}
		if strings.HasPrefix(name, "condition") {
			return "ConditionType"
		}
	}
	return ""
}

func gatewayConstants(t *testing.T) map[string]apiConstant {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]apiConstant{}
	for _, f := range parsePackage(t, filepath.Join(strings.TrimSpace(string(dir)), "apis", "v1")) {
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				for i, name := range spec.Names {
					if value := stringAt(spec.Values, i); value != "" {
						out[name.Name] = apiConstant{constantType(spec.Type, ""), value}
					}
				}
			}
			return true
		})
	}
	if len(out) < 100 {
		t.Fatalf("found %d constants of Gateway API: this test looks in the wrong place", len(out))
	}
	return out
}

func packages(t *testing.T) map[string][]*ast.File {
	t.Helper()
	parsed.Do(func() {
		parsed.byFolder = map[string][]*ast.File{}
		walk(t, false, func(file string) {
			if dir := filepath.Dir(file); parsed.byFolder[dir] == nil {
				parsed.byFolder[dir] = parsePackage(t, filepath.Join(root, dir))
			}
		})
	})
	return parsed.byFolder
}

var parsed struct {
	sync.Once
	byFolder map[string][]*ast.File
}

func parsePackage(t *testing.T, dir string) []*ast.File {
	t.Helper()
	var out []*ast.File
	names, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
	return out
}

func paramsNamed(fn *ast.FuncType, name string) (out []int) {
	i := 0
	for _, field := range fn.Params.List {
		for _, n := range field.Names {
			if typ, ok := field.Type.(*ast.Ident); ok && typ.Name == "string" && n.Name == name {
				out = append(out, i)
			}
			i++
		}
		if len(field.Names) == 0 {
			i++
		}
	}
	return out
}

func isPackage(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

func stringAt(list []ast.Expr, i int) string {
	if i >= len(list) {
		return ""
	}
	return stringOf(list[i])
}

// stringOf returns a string literal's value; "" for other expressions.
func stringOf(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	return constant.StringVal(constant.MakeFromLiteral(lit.Value, lit.Kind, 0))
}

func checkConditions(t *testing.T, rows []conditionRow) {
	t.Helper()
	known := knownConditions(t)
	for r, dir := range known.reasons {
		objects := families[r.family]
		if r.family != "" && objects == nil {
			t.Errorf("%s: reasons of the type %s are not assigned to a table: add the type to families", dir, r.family)
		}
		if !slices.ContainsFunc(rows, func(row conditionRow) bool {
			return row.Reason == r.reason && (objects == nil || slices.Contains(objects, row.Object))
		}) {
			t.Errorf("%s reports the reason %s (%s), which %s/kinds.txt does not explain", dir, r.reason, r.family,
				handWritten)
		}
	}
	for typ := range known.types {
		if !slices.ContainsFunc(rows, func(row conditionRow) bool { return row.Type == typ }) {
			t.Errorf("the condition %s is not explained in %s/kinds.txt", typ, handWritten)
		}
	}
	for _, row := range rows {
		used := false
		for r := range known.reasons {
			used = used || r.reason == row.Reason && (r.family == "" || slices.Contains(families[r.family], row.Object))
		}
		if !used || !known.types[row.Type] {
			t.Errorf("%s/kinds.txt explains %s %s %s, which no code reports", handWritten, row.Object, row.Type,
				row.Reason)
		}
	}
}
