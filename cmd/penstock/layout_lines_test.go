package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// Limits of a file that fits a screen. A tab counts 4 columns.
const (
	codeColumns    = 120
	commentColumns = 100
	functionLines  = 80
)

// longLines and longFunctions are exceptions, with their reasons.
var (
	longLines = map[string]string{
		"cmd/penstock/why_test.go":       "texts of Envoy",
		"xds/bootstrap/bootstrap.go":     "one type of Envoy's API takes a line",
		"xds/fleet/render/deployment.go": "one type of Kubernetes' API takes a line",
		"xds/xdstest/nack_test.go":       "one type of Envoy's API takes a line",
		"xds/xdstest/resources.go":       "one type of Envoy's API takes a line",
	}
	longFunctions = map[string]string{
		"multicluster/federation/federation.go receive": "one message in the order of its topics",
		"multicluster/registry/registry.go apply":       "one update: every check precedes every write",
		"multicluster/channel/follow.go read":           "one stream, from its first message to its end",
	}
)

// constructions matches phrases that CONTRIBUTING.md advises against.
var constructions = regexp.MustCompile(`(?i)\b(those (of|that)|(is|are) what|(is|are) none|that of (a|the))\b`)

const maxConstructions = 40

// tooWide lists lines beyond the limits, except lines that cannot be broken: raw strings, text
// without a space, and controller-gen markers.
func tooWide(fset *token.FileSet, f *ast.File, text string) (found []string) {
	raw := map[int]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && lit.Value[0] == '`' {
			for n := fset.Position(lit.Pos()).Line; n <= fset.Position(lit.End()).Line; n++ {
				raw[n] = true
			}
		}
		return true
	})
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		limit := codeColumns
		if text := strings.TrimSpace(line); strings.HasPrefix(text, "//") && !strings.HasPrefix(text, "//\t") {
			limit = commentColumns // a list or an example in a comment, after a tab, has the limit of code
		}
		width := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
		words := strings.Fields(line)
		if width > limit && !raw[n] && len(words) > 2 && !strings.HasPrefix(words[1], "+") {
			found = append(found, fmt.Sprintf("line %d has %d columns, at most %d: break it", n, width, limit))
		}
	}
	return found
}

// goSources calls f for each handwritten Go file of the repository.
func goSources(t *testing.T, f func(rel, text string)) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if entry.IsDir() {
			if notProse.MatchString(rel + "/") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(rel) != ".go" || strings.HasSuffix(rel, ".pb.go") || notProse.MatchString(rel) {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		files++
		f(rel, string(text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 500 {
		t.Fatalf("%d files were read: this test looks in the wrong place", files)
	}
}

func TestLayout_LinesAndFunctionsFitAScreen(t *testing.T) {
	if n := len(longLines) + len(longFunctions); n > 10 {
		t.Errorf("%d exceptions, want at most 10", n)
	}
	seen := map[string]bool{}
	goSources(t, func(rel, text string) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, rel, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range tooWide(fset, f, text) {
			if seen[rel] = true; longLines[rel] == "" {
				t.Errorf("%s: %s", rel, problem)
			}
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			name := rel + " " + fn.Name.Name
			lines := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
			if lines <= functionLines {
				continue
			}
			if seen[name] = true; longFunctions[name] == "" {
				t.Errorf("%s has %d lines, at most %d: split it by what it does", name, lines, functionLines)
			}
		}
	})
	for _, list := range []map[string]string{longLines, longFunctions} {
		for name := range list {
			if !seen[name] {
				t.Errorf("the exception of %s is not needed", name)
			}
		}
	}
}

// A variable's name is not a bare word such as "is" or "of".
func TestLayout_VariablesHaveNames(t *testing.T) {
	goSources(t, func(rel, text string) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, rel, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		check := func(id *ast.Ident) {
			if id.Name == "is" || id.Name == "of" || id.Name == "was" {
				t.Errorf("%s:%d: %s names a variable: name its value", rel, fset.Position(id.Pos()).Line, id.Name)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					if id, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
						check(id)
					}
				}
			case *ast.RangeStmt:
				for _, e := range []ast.Expr{n.Key, n.Value} {
					if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
						check(id)
					}
				}
			case *ast.Field:
				if _, method := n.Type.(*ast.FuncType); method { // methods and functions are not variables
					return true
				}
				for _, id := range n.Names {
					check(id)
				}
			case *ast.ValueSpec:
				for _, id := range n.Names {
					check(id)
				}
			}
			return true
		})
	})
}

func TestGlossary_ConstructionsAreRare(t *testing.T) {
	var found []string
	list := func(rel, text string) {
		n := 0
		for line := range strings.Lines(text) {
			n++
			for _, phrase := range constructions.FindAllString(line, -1) {
				found = append(found, fmt.Sprintf("%s:%d: %q", rel, n, phrase))
			}
		}
	}
	goSources(t, func(rel, text string) {
		if !strings.HasSuffix(rel, "cmd/penstock/layout_lines_test.go") {
			list(rel, text)
		}
	})
	pages := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/reference/*.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			pages++
			list(strings.TrimPrefix(name, root+"/"), string(text))
		}
	}
	if pages < 30 {
		t.Errorf("%d pages were read: this test looks in the wrong place", pages)
	}
	if len(found) > maxConstructions {
		t.Errorf("%d constructions, want at most %d: name the thing again\n%s", len(found), maxConstructions,
			strings.Join(found, "\n"))
	}
}

func TestLayout_WideLinesAreFound(t *testing.T) {
	for text, want := range map[string]int{
		"package x\n\n// " + strings.Repeat("word ", 19) + "\n":                                 0,
		"package x\n\n// " + strings.Repeat("word ", 20) + "\n":                                 1,
		"package x\n\nvar s = f(1, " + strings.Repeat("x, ", 40) + "1)\n":                       1,
		"package x\n\nvar s = `\n" + strings.Repeat("data ", 40) + "\n`\n":                      0,
		"package x\n\n\t\t// https://example.com/" + strings.Repeat("x", 120) + "\nvar s = 1\n": 0,
	} {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "x.go", text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if got := tooWide(fset, f, text); len(got) != want {
			t.Errorf("%q: got %v, want %d", text, got, want)
		}
	}
}
