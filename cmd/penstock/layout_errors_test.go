package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// In the body of "if err != nil || other", err may be nil. With %w, a user would then read
// "%!w(<nil>)".
func TestLayout_NoNilErrorIsWrapped(t *testing.T) {
	fset := token.NewFileSet()
	walk(t, true, func(file string) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		parsed, err := parser.ParseFile(fset, filepath.Join(root, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range wrapsNil(parsed) {
			t.Errorf("%s wraps an error that may be nil: call errors.Join, or check the error before",
				fset.Position(at))
		}
	})
}

func TestLayout_NilErrorsAreFound(t *testing.T) {
	const text = `package x
func f(n int, err error) error {
	if err != nil || n > 1 { return fmt.Errorf("%d: %w", n, err) } // found
	if n > 1 || err != nil { return fmt.Errorf("%d: %v", n, err) }
	if err != nil || n > 1 { return errors.Join(fmt.Errorf("%d", n), err) }
	if err != nil && n > 1 { return fmt.Errorf("%d: %w", n, err) }
	if err != nil || n > 1 { if err := g(); err != nil { return fmt.Errorf("g: %w", err) } }
	return nil
}`
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, "x.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := wrapsNil(parsed)
	if len(found) != 1 || fset.Position(found[0]).Line != 3 {
		t.Errorf("got %v, want the call in line 3", found)
	}
}

// wrapsNil returns the calls with %w in the body of an if statement whose condition is also true if
// the wrapped error is nil.
func wrapsNil(file *ast.File) (found []token.Pos) {
	ast.Inspect(file, func(n ast.Node) bool {
		statement, ok := n.(*ast.IfStmt)
		if !ok {
			return true
		}
		names := maybeNil(statement.Cond)
		ast.Inspect(statement.Body, func(n ast.Node) bool {
			if _, nested := n.(*ast.IfStmt); nested {
				return false
			}
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			format, ok := call.Args[0].(*ast.BasicLit)
			if !ok || !strings.Contains(format.Value, "%w") {
				return true
			}
			for _, arg := range call.Args[1:] {
				if id, ok := arg.(*ast.Ident); ok && slices.Contains(names, id.Name) {
					found = append(found, call.Pos())
				}
			}
			return true
		})
		return true
	})
	return found
}

// maybeNil returns the variables x of a condition that is a disjunction with "x != nil".
func maybeNil(cond ast.Expr) (names []string) {
	binary, ok := cond.(*ast.BinaryExpr)
	if !ok || binary.Op != token.LOR {
		return nil
	}
	names = maybeNil(binary.X)
	for _, operand := range []ast.Expr{binary.X, binary.Y} {
		if name := notNil(operand); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func notNil(e ast.Expr) string {
	binary, ok := e.(*ast.BinaryExpr)
	if !ok || binary.Op != token.NEQ {
		return ""
	}
	x, ok := binary.X.(*ast.Ident)
	if y, isIdent := binary.Y.(*ast.Ident); ok && isIdent && y.Name == "nil" {
		return x.Name
	}
	return ""
}
