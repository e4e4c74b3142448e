package chart

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// A chart's archive contains the README, which must name existing values, and files and pages of
// this release.
func TestReadme_NamesFilesPagesAndValuesOfTheRelease(t *testing.T) {
	t.Parallel()
	for _, c := range charts() {
		readme := string(c.read(t, "README.md"))
		var about struct{ Name, Version string }
		if err := yaml.Unmarshal(c.read(t, "Chart.yaml"), &about); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"# Chart " + about.Name + "\n", "\n## Install\n", "\n## Values\n",
			"\n## Upgrade\n", "\n## Uninstall\n", about.Name + "-" + about.Version + ".tgz"} {
			if !strings.Contains(readme, want) {
				t.Errorf("chart %s: README.md has no %q, want it", c.name(), want)
			}
		}
		files := regexp.MustCompile(`penstock[a-z-]*-(\d+\.\d+\.\d+)\.(?:tgz|yaml)|/blob/v(\d+\.\d+\.\d+)/`)
		for _, found := range files.FindAllStringSubmatch(readme, -1) {
			if found[1]+found[2] != about.Version {
				t.Errorf("chart %s: README.md names %s, want version %s", c.name(), found[0], about.Version)
			}
		}
		pagesExist(t, readme)
		defaults := c.defaults(t)
		_, values, _ := strings.Cut(readme, "\n## Values\n")
		values, _, _ = strings.Cut(values, "\n## ")
		rows := regexp.MustCompile("(?m)^\\| (`.*?`) \\|").FindAllStringSubmatch(values, -1)
		if len(rows) < 5 {
			t.Errorf("chart %s: README.md has %d rows of values, want at least 5", c.name(), len(rows))
		}
		for _, row := range rows {
			for _, value := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
				if _, ok := lookUp(defaults, value[1]); !ok {
					t.Errorf("chart %s: README.md names the value %s, want one of values.yaml", c.name(), value[1])
				}
			}
		}
	}
}

// Helm alone installs no CRDs if the inference extension's CRDs exist, so users first apply
// Penstock's CRDs.
func TestReadme_CRDsComeBeforeTheChart(t *testing.T) {
	t.Parallel()
	readme := string(charts()[0].read(t, "README.md"))
	ours, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	urls := regexp.MustCompile(`\S+/releases/download/\S+`).FindAllString(readme, -1)
	if len(urls) != 2 {
		t.Errorf("got %q, want the CRDs of Gateway API and of its inference extension", urls)
	}
	for _, url := range urls {
		if !strings.Contains(string(ours), url) {
			t.Errorf("README.md of the repository has no %s, want the same versions", url)
		}
	}
	for _, verb := range []string{"install", "upgrade"} {
		want := `\nkubectl apply --server-side --force-conflicts -f penstock-crds-[0-9.]+\.yaml\nhelm ` + verb + ` penstock `
		if !regexp.MustCompile(want).MatchString(readme) {
			t.Errorf("README.md has no %s, want it", want)
		}
	}
	for _, want := range []string{".spec.versions", ".spec.names.shortNames", "one release of this chart"} {
		if !strings.Contains(readme, want) {
			t.Errorf("README.md has no %q, want it", want)
		}
	}
}
