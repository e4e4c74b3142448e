package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		Needs       []string
		Steps       []workflowStep
	}
}

type workflowStep struct {
	Uses, Run string
	With      map[string]any
}

// checks matches the commands that must precede publishing in a job.
var checks = []*regexp.Regexp{regexp.MustCompile(`^make test$`), regexp.MustCompile(`\bmake conformance\b`)}

// writes lists the jobs with write permissions.
var writes = map[string][]string{"release.yml/release": {"attestations", "contents", "id-token", "packages"}}

var (
	makeLine   = regexp.MustCompile(`^(?:sudo --preserve-env env "PATH=\$PATH" )?make ([a-z-]+)(?: [A-Z]+=\S+)*$`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z-]+):.*## `)
	pinnedUse  = regexp.MustCompile(`^\s*(?:- )?uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
)

func TestLayout_WorkflowsRunTargetsWithLeastPermissions(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%v %v, want at least 4 of them", files, err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, m := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, m[1])
	}
	run := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range workflowFindings(t, filepath.Base(file), string(text), t.Errorf) {
			if run[target] = true; !slices.Contains(targets, target) {
				t.Errorf("%s runs make %s, which the Makefile does not have", filepath.Base(file), target)
			}
		}
	}
	for _, target := range []string{
		"test", "lint", "fuzz", "simulate", "soak", "audit", "conformance", "release-fetch", "bench-release",
		"publish",
	} {
		if !run[target] {
			t.Errorf("no workflow runs make %s", target)
		}
	}
}

func TestLayout_WorkflowRulesFindMistakes(t *testing.T) {
	const good = `permissions: {contents: read}
jobs:
  a:
    steps:
    - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
      with: {persist-credentials: false}
    - run: make test
  c:
    steps:
    - run: make conformance VERSION=1
  b:
    needs: [a, c]
    steps:
    - run: make publish
`
	for _, c := range []struct{ from, to string }{
		{"", ""},
		{"permissions: {contents: read}\n", ""},
		{"contents: read", "contents: write"},
		{"  a:\n", "  a:\n    permissions: {packages: write}\n"},
		{"3d3c42e5aac5ba805825da76410c181273ba90b1", "v7"},
		{"persist-credentials: false", "fetch-depth: 1"},
		{"make test", "go test ./..."},
		{"make test", "make test; make other"},
		{"make test", "make lint"},
		{"make conformance", "make soak"},
		{"needs: [a, c]", "needs: [c]"},
		{"needs: [a, c]", "needs: [a]"},
	} {
		found := 0
		workflowFindings(t, "x.yml", strings.Replace(good, c.from, c.to, 1), func(string, ...any) { found++ })
		if (found > 0) != (c.from != "") {
			t.Errorf("%q instead of %q: %d findings", c.to, c.from, found)
		}
	}
}

// workflowFindings reports broken rules. It returns the Makefile targets that a workflow runs.
func workflowFindings(t *testing.T, name, text string, report func(string, ...any)) (targets []string) {
	t.Helper()
	var w workflow
	if err := yaml.Unmarshal([]byte(text), &w); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
		report("%s: its permissions are not contents: read", name)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "uses:") && !pinnedUse.MatchString(strings.TrimRight(line, "\n")) {
			report("%s: %q is not pinned by a commit, with its version as a comment", name, strings.TrimSpace(line))
		}
	}
	for job, j := range w.Jobs {
		for scope := range j.Permissions {
			if !slices.Contains(writes[name+"/"+job], scope) {
				report("%s: job %s has the permission %s", name, job, scope)
			}
		}
		for _, step := range j.Steps {
			if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false {
				report("%s: job %s leaves credentials in its folder: write persist-credentials: false", name, job)
			}
			if step.Run == "" {
				continue
			}
			if m := makeLine.FindStringSubmatch(step.Run); m != nil {
				targets = append(targets, m[1])
			} else {
				report("%s: %q is not make and a target", name, step.Run)
			}
			if !strings.HasPrefix(step.Run, "make publish") {
				continue
			}
			for _, check := range checks {
				ran := func(s workflowStep) bool { return check.MatchString(s.Run) }
				runs := func(job string) bool { return slices.ContainsFunc(w.Jobs[job].Steps, ran) }
				if !slices.ContainsFunc(j.Needs, runs) {
					report("%s: job %s publishes, and needs no job that runs %s", name, job, check)
				}
			}
		}
	}
	return targets
}
