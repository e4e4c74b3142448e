package principals

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const tree = "../../.."

func sources(t testing.TB, paths ...string) (files []*ast.File) {
	t.Helper()
	for _, path := range paths {
		found := []string{filepath.Join(tree, path)}
		if !strings.HasSuffix(path, ".go") {
			found, _ = filepath.Glob(filepath.Join(tree, path, "*.go"))
		}
		if len(found) == 0 {
			t.Fatalf("no Go files in %s", path)
		}
		for _, name := range found {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
	}
	return files
}

func literals(files []*ast.File, match *regexp.Regexp) (out []string) {
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := literalText(n); ok && match.MatchString(s) {
				out = append(out, s)
			}
			return true
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func literalText(n ast.Node) (string, bool) {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// arguments returns the string literals in calls of a function or method.
func arguments(files []*ast.File, function string) (out []string) {
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			named := ""
			switch f := call.Fun.(type) {
			case *ast.Ident:
				named = f.Name
			case *ast.SelectorExpr:
				named = f.Sel.Name
			}
			if named == function {
				for _, a := range call.Args {
					if s, ok := literalText(a); ok {
						out = append(out, s)
					}
				}
			}
			return true
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// cases returns the strings in a function's switches, prefixed with the constant of the enclosing
// case: case "role" within case inMessage is "inMessage.role".
func cases(files []*ast.File, function string) (out []string) {
	for _, file := range files {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Name.Name != function {
				continue
			}
			out = append(out, casesIn(f.Body, "")...)
		}
	}
	return out
}

func casesIn(n ast.Node, below string) (out []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		clause, ok := n.(*ast.CaseClause)
		if !ok {
			return true
		}
		within := below
		for _, e := range clause.List {
			if s, ok := literalText(e); ok {
				out = append(out, below+s)
			} else if id, ok := e.(*ast.Ident); ok {
				within = id.Name + "."
			}
		}
		for _, s := range clause.Body {
			out = append(out, casesIn(s, within)...)
		}
		return false
	})
	return out
}
