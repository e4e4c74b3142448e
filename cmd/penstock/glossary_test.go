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
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/features"
)

// standardPhrases are expressions of other projects that contain a forbidden word.
var standardPhrases = regexp.MustCompile(
	`(?i)connections? (is |was |are )?refused|refus(e|es|ed|ing) (a |the |all |its |every )?connections?|refused[-_]stream|ECONNREFUSED|RefusedStream|nobody:x:65534:65534:nobody|tells the scheduler|"refusal"|penstock-peer-refused|(?-i:\bAsleep\b)|#asleep`)

// notProse matches files of other projects, generated files, and test data.
var notProse = regexp.MustCompile(
	`(^|/)(testdata|bin|\.tools|\.git)/|go\.sum$|^LICENSE$|^manifests/crds/(gateway|inference\.networking\.k8s\.io)|^conformance/suites/reports/.*yaml$`)

var cased = regexp.MustCompile(`[A-Z]+(?:[a-z]+|\b)|[a-z]+`)

// ruledOut reads testdata/words.txt: a forbidden word or phrase, and what to write instead.
func ruledOut(t *testing.T) (words, phrases map[string]string) {
	t.Helper()
	text, err := os.ReadFile("testdata/words.txt")
	if err != nil {
		t.Fatal(err)
	}
	words, phrases = map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, advice, ok := strings.Cut(line, "\t")
		if !ok {
			t.Fatalf("testdata/words.txt: %q has no tab", line)
		}
		if strings.Contains(word, " ") {
			phrases[word] = advice
		} else {
			words[word] = advice
		}
	}
	return words, phrases
}

func findings(file, text string, words, phrases map[string]string) []string {
	var found []string
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = standardPhrases.ReplaceAllString(line, "")
		report := func(word, advice string) {
			found = append(found, fmt.Sprintf("%s:%d: %q: write %s", file, n, word, advice))
		}
		for _, word := range cased.FindAllString(line, -1) {
			if advice, ok := words[strings.ToLower(word)]; ok {
				report(word, advice)
			}
		}
		for phrase, advice := range phrases {
			if strings.Contains(strings.ToLower(line), phrase) {
				report(phrase, advice)
			}
		}
	}
	return found
}

func TestGlossary_RuledOutWordsAreAbsent(t *testing.T) {
	words, phrases := ruledOut(t)
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
		prose := slices.Contains([]string{".go", ".md", ".yaml", ".lua", ".sh", ".tpl"}, filepath.Ext(file)) ||
			slices.Contains([]string{"Makefile", ".ci/run"}, rel)
		if !entry.Type().IsRegular() || !prose || notProse.MatchString(rel) || rel == "CONTRIBUTING.md" ||
			rel == "cmd/penstock/glossary_test.go" {
			return nil
		}
		files++
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, f := range findings(rel, string(text), words, phrases) {
			t.Error(f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Fatalf("%d files were read: this test looks in the wrong place", files)
	}
}

func TestGlossary_FindsWordsInNamesAndProse(t *testing.T) {
	words, phrases := ruledOut(t)
	for _, c := range []struct {
		text string
		want int
	}{
		{"// Envoy refuses the cluster", 1},
		{"func whatNobodySaid() {}", 2},
		{"const openPatience = 5", 1},
		{"calls that are under way", 1},
		{"NOBODY", 1},
		{"dial tcp: connect: connection refused", 0},
		{"a server that refuses connections", 0},
		{`RetryOn: "refused-stream,unavailable"`, 0},
		{"ECONNREFUSED", 0},
		{"an essay about patients", 0},
		{"The resolver keeps the last answer when a lookup fails.", 0},
	} {
		if got := findings("x.go", c.text, words, phrases); len(got) != c.want {
			t.Errorf("%q: got %d findings %v, want %d", c.text, len(got), got, c.want)
		}
	}
}

// testName is the form of test names: the feature's term, then the behaviour or invariant.
var testName = regexp.MustCompile(`^(Test|Fuzz)[A-Z][A-Za-z0-9]*_[A-Z0-9]`)

func testNames(t *testing.T) map[string]string {
	t.Helper()
	names := map[string]string{}
	fset := token.NewFileSet()
	walk(t, true, func(file string) {
		if !strings.HasSuffix(file, "_test.go") {
			return
		}
		parsed, err := parser.ParseFile(fset, filepath.Join(root, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil &&
				(strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz")) &&
				f.Name.Name != "TestMain" {
				names[f.Name.Name] = filepath.ToSlash(file)
			}
		}
	})
	if len(names) < 100 {
		t.Fatalf("found %d tests: this test looks in the wrong place", len(names))
	}
	return names
}

func TestGlossary_TestNamesBeginWithAFeature(t *testing.T) {
	for name, file := range testNames(t) {
		if !testName.MatchString(name) {
			t.Errorf("%s: %s: a name is TestTerm_WhatAUserWouldLose", file, name)
		}
	}
}

// TestGlossary_EveryFeatureAndKindHasANamedTest makes `go test -run HTTPRouteCORS` find a feature's
// tests. Underscores do not count.
func TestGlossary_EveryFeatureAndKindHasANamedTest(t *testing.T) {
	var all strings.Builder
	for name := range testNames(t) {
		all.WriteString(strings.ReplaceAll(name, "_", "") + "\n")
	}
	names := all.String()
	for _, feature := range features.Names() {
		if !strings.Contains(names, string(feature)) {
			t.Errorf("no test has the feature %s in its name", feature)
		}
	}
	for _, table := range store.Tables() {
		if !strings.Contains(names, table.Kind()) {
			t.Errorf("no test has the kind %s in its name", table.Kind())
		}
	}
}
