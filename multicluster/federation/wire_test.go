package federation_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/multicluster/federation"
)

// Hostile values are tested for all listed types, so every type with JSON names must be listed.
func TestWireTypes_NoneIsMissing(t *testing.T) {
	var listed []string
	for _, v := range federation.WireTypes() {
		listed = append(listed, reflect.TypeOf(v).Name())
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			fields, ok := spec.Type.(*ast.StructType)
			if !ok || !slices.ContainsFunc(fields.Fields.List,
				func(f *ast.Field) bool { return f.Tag != nil && strings.Contains(f.Tag.Value, "json:") }) {
				return true
			}
			if found++; !slices.Contains(listed, spec.Name.Name) {
				t.Errorf("WireTypes lacks %s, want it there", spec.Name.Name)
			}
			return true
		})
	}
	if found != len(listed) {
		t.Errorf("%d types with JSON names, want the %d of WireTypes", found, len(listed))
	}
}
