package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/penstock-project/penstock"
	root   = "../.." // the repository's root
)

// topLevel lists the repository's top folder, without dot files and build output; true means
// required.
var topLevel = map[string]bool{
	"cmd": true, "xds": true, "translator": true, "discovery": true, "picker": true, "multicluster": true,
	"manifests": true, "conformance": true, "docs": true,
	"Makefile": true, "go.mod": true, "go.sum": true,
	"README.md": true, "ARCHITECTURE.md": true, "CHANGELOG.md": true, "LICENSE": true,
	"CONTRIBUTING.md": true,
	"SECURITY.md":     true,
}

// allowed lists the permitted imports across top-level folders. A rule holds for everything below
// both folders. Otherwise, the consumer declares a small interface.
var allowed = []struct{ from, to string }{
	{"cmd", "."},
	{".", "discovery/status/report"},
	{".", "discovery/filesystem"}, // it reads the files that users name
	{".", "discovery/objectid"},
	{".", "discovery/credential"}, // it hides credentials in output
	{".", "manifests"},
	{"translator", "discovery/store"},
	{"multicluster", "discovery/store"},
	{"translator", "xds/resource"},
	{"discovery/file", "translator/certificates"},      // certificates imports the standard library alone
	{"translator/inference", "multicluster/selection"}, // selection only decides
	{"translator/gatewayapi", "multicluster/selection"},
	{"xds/fleet", "discovery/store"},
	// The packages of multicluster that connect it to a process.
	{"multicluster/set", "discovery/statefile"}, // set stores its identity and records
	{"multicluster/set", "discovery/status"},    // names of the status board's sources
	{"multicluster/set", "translator"},          // set.Change has translator.Output; set also checks certificates
	{"multicluster/set", "xds/authority"},       // certificates for members
	{"multicluster/set/simulate", "xds/resource"},
	{"multicluster/hub", "discovery/file"}, // hub reads a folder's ClusterSet
	{"multicluster/hub", "discovery/kube"}, // hub connects to members' API servers
	{"multicluster/hub", "translator/addresses"},
	{"multicluster/traffic", "translator"},
	{"multicluster/traffic", "picker/accesslog"},    // attempts that Envoys report
	{"multicluster/traffic/attempts", "picker"},     // records of picks, for explain --why
	{"multicluster/traffic/load", "picker"},         // load implements picker.Chooser
	{"discovery/kube/kubetest", "xds/xdstest/poll"}, // kubetest is for tests
	{"picker/external", "xds/admission/ports"},      // external's programs open ports
	{"discovery/engine/controller", "picker"},       // controller implements picker.OnDemand
}

// forbidden lists forbidden imports within a top-level folder.
var forbidden = []struct{ from, to, why string }{
	{"discovery/status/report", "discovery", "every package imports report, so it imports nothing"},
	{"discovery/filesystem", "discovery", "every package imports filesystem, so it imports nothing"},
	{"discovery/objectid", "discovery", "every package imports objectid, so it imports nothing"},
	{"discovery/credential", "discovery", "every package imports credential, so it imports nothing"},
	{"cmd/penstock", "cmd/internal/external/commands", "its vocabularies would take memory of every penstock serve"},
	{"discovery/store", "discovery/file", "file writes the store, which does not know its writers"},
	{"discovery/store", "discovery/kube", "kube writes the store, which does not know its writers"},
	{"discovery/store", "discovery/status", "the store does not know who reads it"},
	{"discovery/file", "discovery/kube", "two writers of the same tables that do not know each other"},
	{"discovery/kube", "discovery/file", "two writers of the same tables that do not know each other"},
	{"discovery/file", "discovery/status", "reports leave by a function that cmd passes"},
	{"discovery/kube", "discovery/status/kubestatus", "kubestatus writes through kube, which does not know its writer"},
	{"discovery/status/shape", "discovery/kube", "what a status looks like does not depend on how it is written"},
	{"translator/graph", "translator", "the engine never learns what it computes"},
	{"translator/model", "translator", "the plain structs between the stages know no stage"},
	{"xds/resource", "xds", "translator imports resource, and must not get the server with it"},
}

var testsMayUse = []string{
	"xds/xdstest", "xds/bootstrap", "discovery/store", "cmd/internal/external/commands", "xds/authority",
}

type source struct {
	file    string
	imports []string
	other   []string
}

func TestLayout_SiblingsDoNotImportEachOther(t *testing.T) {
	for _, s := range sources(t) {
		from, test := path.Dir(s.file), strings.HasSuffix(s.file, "_test.go")
		for _, to := range s.imports {
			if why := verdict(from, to, test); why != "" {
				t.Errorf("%s imports %s: %s", s.file, to, why)
			}
		}
	}
}

// impure lists packages through which translation could depend on more than its arguments. Package
// time is needed for durations.
var impure = []string{"os", "syscall", "log", "math/rand", "crypto/rand", "io/fs"}

func TestLayout_TranslationIsPure(t *testing.T) {
	for _, s := range sources(t) {
		if top(s.file) != "translator" || strings.HasSuffix(s.file, "_test.go") {
			continue
		}
		for _, used := range s.other {
			if slices.ContainsFunc(impure, func(pkg string) bool { return below(used, pkg) }) {
				t.Errorf("%s imports %s: the same objects would not always give the same bytes", s.file, used)
			}
		}
	}
}

func TestLayout_RulesRejectForbiddenImports(t *testing.T) {
	for _, c := range []struct {
		from, to string
		test, ok bool
	}{
		{"cmd/penstock", "xds/server", false, true},
		{"cmd/penstock", "picker/modelserver", false, true},
		{"picker/modelserver", "cmd/internal/external/tokenstore", false, false},
		{"cmd/penstock/internal/app", "cmd/internal/external/commands", false, false},
		{"translator/gatewayapi", "discovery/store", false, true},
		{"translator/envoy", "xds/resource", false, true},
		{"picker/endpoint", "discovery/status/report", false, true},
		{"multicluster/hub", "manifests/inferenceapi", false, true},
		{"multicluster/hub", "discovery/kube/leader", false, true},
		{"multicluster/federation", "translator", false, false},
		{"multicluster/set", "picker", false, false},
		{"multicluster/traffic/parents", "picker", false, false},
		{"xds/fleet/apply", "discovery/store", false, true},
		{"xds/identity", "discovery/store", false, false},
		{"discovery/file", "discovery/store", false, true},
		{"translator/graph", "xds/xdstest", true, true},
		{"manifests", "discovery/store", true, true},
		{"manifests", "discovery/store", false, false},
		{"picker/extproc", "translator/envoy", true, false},
		{"translator/graph", "xds/xdstest", false, false},
		{"translator/envoy", "xds/resources", false, false},
		{"xds/server", "cmd/penstock/internal/app", false, false},
		{"xds/cache", "discovery/store", false, false},
		{"picker/schedule", "translator/model", false, false},
		{"discovery/status/report", "discovery/store", false, false},
		{"discovery/store", "discovery/file", false, false},
		{"discovery/store", "discovery/status", false, false},
		{"discovery/store", "discovery/status/report", false, true},
		{"translator/model", "translator/envoy", false, false},
	} {
		if why := verdict(c.from, c.to, c.test); (why == "") != c.ok {
			t.Errorf("%s importing %s (in a test: %v): got %q, want allowed=%v", c.from, c.to, c.test, why, c.ok)
		}
	}
}

// verdict returns why the folder from must not import the folder to; "" means that it may.
func verdict(from, to string, test bool) string {
	if test && slices.ContainsFunc(testsMayUse, func(folder string) bool { return below(to, folder) }) {
		return ""
	}
	if top(from) == top(to) {
		for _, rule := range forbidden {
			if below(from, rule.from) && below(to, rule.to) && !below(to, rule.from) &&
				!below(to, "discovery/status/report") {
				return rule.why
			}
		}
		return ""
	}
	if top(to) == "cmd" {
		return "nothing imports cmd"
	}
	for _, rule := range allowed {
		if below(from, rule.from) && below(to, rule.to) {
			return ""
		}
	}
	return "siblings do not import each other; declare an interface where it is used, and let cmd fill it"
}

func top(folder string) string { first, _, _ := strings.Cut(folder, "/"); return first }

func below(folder, ancestor string) bool {
	return ancestor == "." || folder == ancestor || strings.HasPrefix(folder, ancestor+"/")
}

func TestLayout_TopLevelIsComplete(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, e := range entries {
		found[e.Name()] = true
		_, named := topLevel[e.Name()]
		built := e.Name() == "bin" || e.Name() == "dist" || strings.HasSuffix(e.Name(), ".test") ||
			strings.HasSuffix(e.Name(), ".prof")
		if !named && !built && !strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s is not in the list of what the top level holds", e.Name())
		}
	}
	for name, required := range topLevel {
		if required && !found[name] {
			t.Errorf("%s is missing from the top level", name)
		}
	}
}

func TestLayout_EveryPackageHasADocGo(t *testing.T) {
	folders := map[string]bool{} // folders with non-test Go files; true means that doc.go is there
	walk(t, true, func(file string) {
		if dir := filepath.Dir(file); !strings.HasSuffix(file, "_test.go") {
			folders[dir] = folders[dir] || filepath.Base(file) == "doc.go"
		}
	})
	for dir, documented := range folders {
		if !documented {
			t.Errorf("%s has no doc.go", dir)
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, dir, "doc.go"), nil,
			parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Error(err)
		} else if file.Doc == nil || len(file.Doc.Text()) < 100 {
			t.Errorf("%s/doc.go lacks what the package owns, who calls it, its invariants, and how to test it alone",
				dir)
		}
	}
}

// Packages of this module have unique names and no aliases, so that a qualifier is unambiguous.
func TestLayout_PackageNamesAreUnique(t *testing.T) {
	named := map[string]string{} // package name -> folder
	fset := token.NewFileSet()
	walk(t, true, func(file string) {
		parsed, err := parser.ParseFile(fset, filepath.Join(root, file), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			if spec.Name != nil && spec.Name.Name != "_" &&
				strings.HasPrefix(strings.Trim(spec.Path.Value, `"`), module+"/") {
				t.Errorf("%s imports %s as %s: rename the package instead", file, spec.Path.Value, spec.Name.Name)
			}
		}
		if strings.HasSuffix(file, "_test.go") || path.Base(filepath.ToSlash(file)) == "doc.go" {
			return // tests, and packages with only a doc.go, are not imported
		}
		name, dir := strings.TrimSuffix(parsed.Name.Name, "_test"), path.Dir(filepath.ToSlash(file))
		if name == "main" {
			return
		}
		if other, taken := named[name]; taken && other != dir {
			t.Errorf("packages %s and %s are both named %s", other, dir, name)
		}
		named[name] = dir
	})
}

func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	walk(t, false, func(file string) {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		s := source{file: filepath.ToSlash(file)}
		for _, spec := range parsed.Imports {
			if to, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/"); ours {
				s.imports = append(s.imports, to)
			} else {
				s.other = append(s.other, to)
			}
		}
		all = append(all, s)
	})
	if len(all) < 10 {
		t.Fatalf("found %d Go files: this test looks in the wrong place", len(all))
	}
	return all
}

// walk calls visit with each Go file's path from the root. nested includes nested modules.
func walk(t *testing.T, nested bool, visit func(file string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && file != root {
			if name := entry.Name(); strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil && !nested {
				return filepath.SkipDir
			}
		}
		if entry.Type().IsRegular() && strings.HasSuffix(file, ".go") {
			rel, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			visit(rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Each of a newcomer's 40 questions about where to find something has an existing path in
// testdata/answers.md.
func TestLayout_NewcomersQuestionsHaveAnswers(t *testing.T) {
	numbered := regexp.MustCompile(`(?m)^(\d+)\. (.+)$`)
	read := func(name string) map[string]string {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, m := range numbered.FindAllStringSubmatch(string(text), -1) {
			out[m[1]] = m[2]
		}
		return out
	}
	questions, answers := read("questions.md"), read("answers.md")
	if len(questions) != 40 {
		t.Errorf("%d questions, want 40", len(questions))
	}
	for number, question := range questions {
		answer := answers[number]
		if _, err := os.Stat(filepath.Join(root, answer)); answer == "" || err != nil {
			t.Errorf("%s. %s: answers.md has %q, which does not exist", number, question, answer)
		}
	}
}
