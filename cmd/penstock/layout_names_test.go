package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// namesPackage is the only package that parses "namespace/name".
const namesPackage = "discovery/objectid"

// splitters lists files that split other texts at slashes. A file that splits "namespace/name" must
// call namesPackage.
var splitters = map[string]string{
	"cmd/penstock/golden_test.go":                         "names of sections of a golden",
	"discovery/store/rows/rows_test.go":                   "keys of a test",
	"xds/identity/identity.go":                            "SPIFFE IDs",
	"xds/xdstest/quarantine_test.go":                      "names of a test",
	"cmd/penstock/layout_test.go":                         "paths of folders",
	"cmd/penstock/reference_fields_test.go":               "apiVersion",
	"picker/stage_process.go":                             "a ModelServers object and a host of it",
	"conformance/lab/image/table.go":                      "references of images",
	"conformance/lab/sandbox/root.go":                     "paths",
	"conformance/promises/apiserver/writes_test.go":       "verbs of subresources",
	"conformance/promises/attacks/hostileserver_test.go":  "paths of URLs",
	"conformance/promises/principals/membercells_test.go": "names of an attacker, which need not parse",
	"conformance/promises/principals/memberplay_test.go":  "names of an attacker, which need not parse",
	"conformance/promises/principals/objects_test.go":     "CIDR ranges",
	"conformance/suites/expected/expected_test.go":        "statuses and reasons of conditions",
	"discovery/file/kinds.go":                             "apiVersion",
	"discovery/kube/kubetest/server.go":                   "paths of URLs, and resources",
	"discovery/statefile/powercut_internal_test.go":       "paths",
	"cmd/penstock/run.go":                                 "an engine and a model",
	"discovery/engine/commandline/schema.go":              "JSON pointers",
	"discovery/engine/fetch/blob.go":                      "paths of files",
	"discovery/engine/fetch/fetch.go":                     "names of models, and paths of files",
	"translator/gatewayapi/auth.go":                       "paths of URLs",
	"translator/envoy/path.go":                            "paths of requests",
	"translator/model/cluster_id.go":                      "names of Envoy clusters",
	"translator/model/names.go":                           "names of Envoy listeners, filter chains and secrets",
}

var cutting = []string{
	"Cut", "CutPrefix", "CutSuffix", "Split", "SplitN", "SplitAfter", "SplitAfterN", "SplitSeq", "SplitAfterSeq",
	"Index", "IndexByte", "IndexRune", "IndexAny", "LastIndex", "LastIndexByte", "LastIndexAny",
}

// joiners lists files that concatenate "namespace/name" themselves, and why. Others call
// objectid.Join.
var joiners = map[string]string{
	"discovery/kube/kubetest/server.go": "paths of URLs",
	"discovery/status/report/report.go": "it imports nothing",
	"discovery/store/tables.go":         "keys of indexes have more parts, and one allocation",
	"translator/model/cluster_id.go":    "names of clusters have more parts, and one allocation",
	"translator/model/names.go":         "names of listeners and secrets have more parts",
}

func TestLayout_OnlyOnePackageSplitsNames(t *testing.T) {
	split, joined := map[string]bool{}, map[string]bool{}
	fset := token.NewFileSet()
	walk(t, true, func(file string) {
		name := filepath.ToSlash(file)
		if path.Dir(name) == namesPackage {
			return
		}
		parsed, err := parser.ParseFile(fset, filepath.Join(root, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if splitsAtSlash(n) {
					if split[name] = true; splitters[name] == "" {
						t.Errorf("%s splits a text at a slash: parse it with %s where it enters the process",
							fset.Position(n.Pos()), namesPackage)
					}
				}
			case *ast.BinaryExpr:
				if joinsNames(n) && !strings.HasSuffix(name, "_test.go") {
					if joined[name] = true; joiners[name] == "" {
						t.Errorf("%s joins a namespace and a name: call String of the identity, or objectid.Join",
							fset.Position(n.Pos()))
					}
				}
			}
			return true
		})
	})
	for name := range splitters {
		if !split[name] {
			t.Errorf("%s splits no text at a slash any more: remove it from splitters", name)
		}
	}
	for name := range joiners {
		if !joined[name] {
			t.Errorf("%s joins no names any more: remove it from joiners", name)
		}
	}
}

func splitsAtSlash(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) < 2 {
		return false
	}
	pkg, ok := f.X.(*ast.Ident)
	return ok && (pkg.Name == "strings" || pkg.Name == "bytes") && slices.Contains(cutting, f.Sel.Name) &&
		isSlash(call.Args[1])
}

func isSlash(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Value == `"/"` || e.Value == "`/`" || e.Value == `'/'`
	case *ast.CallExpr:
		return len(e.Args) == 1 && isSlash(e.Args[0])
	}
	return false
}

func joinsNames(e *ast.BinaryExpr) bool {
	left, ok := e.X.(*ast.BinaryExpr)
	if !ok || e.Op != token.ADD || left.Op != token.ADD || !isSlash(left.Y) {
		return false
	}
	namespace := left.X
	if more, ok := namespace.(*ast.BinaryExpr); ok && more.Op == token.ADD {
		namespace = more.Y // skip the text before the namespace
	}
	if call, ok := namespace.(*ast.CallExpr); ok {
		namespace = call.Fun
	}
	name := ""
	switch n := namespace.(type) {
	case *ast.Ident:
		name = n.Name
	case *ast.SelectorExpr:
		name = n.Sel.Name
	}
	return slices.Contains([]string{"namespace", "Namespace", "GetNamespace", "ns"}, name)
}

func TestLayout_RuleFindsNamesThatAreSplitOrJoined(t *testing.T) {
	for code, found := range map[string]bool{
		`strings.Cut(key, "/")`: true, `strings.SplitN(key, "/", 2)`: true, `bytes.IndexByte(key, '/')`: true,
		`bytes.Cut(key, []byte("/"))`: true,
		`ns + "/" + name`:             true, `o.Namespace + "/" + o.Name`: true, `o.GetNamespace() + "/" + name`: true,
		`"Gateway " + namespace + "/" + name`: true,
		`strings.Cut(key, "@")`:               false, `strings.HasPrefix(key, "/")`: false, `dir + "/" + file`: false,
		`objectid.Join(namespace, name)`: false,
	} {
		e, err := parser.ParseExpr(code)
		if err != nil {
			t.Fatal(err)
		}
		got := false
		switch e := e.(type) {
		case *ast.CallExpr:
			got = splitsAtSlash(e)
		case *ast.BinaryExpr:
			got = joinsNames(e)
		}
		if got != found {
			t.Errorf("%s: found %t, want %t", code, got, found)
		}
	}
}
