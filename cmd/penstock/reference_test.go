package main

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/penstock-project/penstock/cmd/internal/external/commands"
)

// The parts of REFERENCE.md between "<!-- generated: NAME -->" and "<!-- end -->" come from the
// code; this test compares them, and `make golden` rewrites them.
func TestReference_GoldenMatchesTheCode(t *testing.T) {
	path := filepath.Join(root, "REFERENCE.md")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]func(*testing.T) string{
		"kinds":      kindsSection,
		"fields":     fieldsSection,
		"conditions": func(t *testing.T) string { return conditionsSection(t, conditionRows) },
		"commands":   commandsSection,
		"chart":      chartSection,
		"metrics":    metricsSection,
		"answers":    answersSection,
		"plugins":    pluginsSection,
		"series":     seriesSection,
	}
	found := map[string]bool{}
	got := regexp.MustCompile(`(?s)(<!-- generated: ([a-z]+) -->\n)(.*?)(<!-- end -->)`).
		ReplaceAllStringFunc(string(raw), func(match string) string {
			name, _, _ := strings.Cut(strings.TrimPrefix(match, "<!-- generated: "), " ")
			section := sections[name]
			if section == nil {
				t.Fatalf("nothing generates the section %q of REFERENCE.md", name)
			}
			found[name] = true
			return fmt.Sprintf("<!-- generated: %s -->\n%s\n<!-- end -->", name, section(t))
		})
	for name := range sections {
		if !found[name] {
			t.Errorf("REFERENCE.md has no section <!-- generated: %s -->", name)
		}
	}
	if os.Getenv("PENSTOCK_GOLDEN") == "rewrite" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(string(raw), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("REFERENCE.md is stale: run make golden (-file +code):\n%s", diff)
	}
}

// The hand-written pages name commands, metrics and log messages, which must exist, and list every
// HTTP page.
func TestReference_DocumentedNamesExist(t *testing.T) {
	var text string
	for _, page := range documentation(t) {
		raw, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(raw), "\n"); page == "README.md" && n > 250 {
			t.Errorf(
				"README.md has %d lines, and is for the first hour: move what can wait to docs or "+
					"REFERENCE.md", n)
		}
		text += string(raw)
	}
	metrics := knownMetrics(t)
	for _, name := range regexp.MustCompile("`penstock_[a-z_]+").FindAllString(text, -1) {
		if !slices.ContainsFunc(metrics, func(m metricRow) bool { return "`"+m.name == name }) {
			t.Errorf("no metric is named %s", name)
		}
	}
	for _, m := range regexp.MustCompile("`penstock ([a-z]+)").FindAllStringSubmatch(text, -1) {
		if cmd, _, err := newRoot().Find(m[1:]); err != nil || cmd.Name() != m[1] {
			t.Errorf("there is no command %s", m[0])
		}
	}
	var literals []string
	for _, files := range packages(t) {
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok {
					literals = append(literals, stringOf(lit))
				}
				return true
			})
		}
	}
	for _, page := range literals {
		if path, ok := strings.CutPrefix(page, "GET /"); ok && path != "" && !strings.Contains(text, "`/"+path+"`") &&
			!strings.HasPrefix(path, "debug/pprof/") {
			t.Errorf("REFERENCE.md does not list the page /%s", path)
		}
	}
	_, rows, _ := strings.Cut(text, "| Message | Event |\n")
	rows, _, _ = strings.Cut(rows, "\n\n")
	messages := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(rows, -1)
	if len(messages) < 3 {
		t.Errorf("found %d log messages in docs: this test looks in the wrong place", len(messages))
	}
	for _, m := range messages {
		if !slices.ContainsFunc(literals, func(text string) bool { return strings.HasPrefix(text, m[1]) }) {
			t.Errorf("no code logs %q, which docs/metrics-and-alerts.md lists", m[1])
		}
	}
}

// REFERENCE.md's example of a kind that Penstock does not read is not in its table.
func TestReference_UnsupportedKindIsNotInTheTable(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "REFERENCE.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`such as (\w+), as not \w+ yet`).FindStringSubmatch(string(raw))
	if named == nil || strings.Contains(kindsSection(t), "| "+named[1]+" |") {
		t.Errorf("REFERENCE.md names %q", named)
	}
}

func documentation(t *testing.T) []string {
	t.Helper()
	tasks, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("docs has %d pages: %v", len(tasks), err)
	}
	pages := []string{"README.md", "REFERENCE.md"}
	for _, task := range tasks {
		pages = append(pages, filepath.Join("docs", filepath.Base(task)))
	}
	return pages
}

func commandsSection(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, cmd := range slices.Concat(newRoot().Commands(), commands.New().Commands()) {
		if !cmd.IsAvailableCommand() || cmd.Name() == "completion" || cmd.Name() == "help" {
			continue
		}
		commandReference(&b, cmd)
	}
	return b.String()
}

func commandReference(b *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(b, "\n### `%s`\n\n%s.\n", strings.TrimSuffix(cmd.UseLine(), " [flags]"), cmd.Short)
	var rows strings.Builder
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		unset := ""
		if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "0" && f.DefValue != "0s" && f.DefValue != "false" {
			unset = "`" + strings.Trim(f.DefValue, "[]") + "`"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", name, flagType(f), unset, oneLine(f.Usage))
	})
	if rows.Len() > 0 {
		b.WriteString("\n| Flag | Type | Default | Description |\n|---|---|---|---|\n" + rows.String())
	}
	for _, sub := range cmd.Commands() {
		commandReference(b, sub)
	}
}

func flagType(f *pflag.Flag) string {
	switch typ := f.Value.Type(); typ {
	case "stringSlice", "stringArray":
		return "list of strings"
	case "intSlice":
		return "list of integers"
	case "int", "uint16":
		return "integer"
	case "float64":
		return "number"
	case "bool":
		return "switch"
	default:
		return typ
	}
}

func chartSection(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, chart := range []string{"penstock", "picker", "external"} {
		path := filepath.Join("manifests", "charts", chart)
		raw, err := os.ReadFile(filepath.Join(root, path, "values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\n### `%s`\n\n```yaml\n%s\n```\n", filepath.ToSlash(path), strings.TrimSpace(string(raw)))
	}
	return b.String()
}
