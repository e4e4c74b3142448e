package main

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// Each relative link on an archive's pages leads to a file of the archive. Other links lead to the
// repository at this version.
func TestPages_ArchiveHasItsOwnReadmeAndNoDeadLink(t *testing.T) {
	d := prepared(t)
	d.platforms = published[:1]
	if err := os.RemoveAll(filepath.Join(d.source, "docs")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(d.source, "docs"), os.DirFS(filepath.Join(root, "docs"))); err != nil {
		t.Fatal(err)
	}
	name := "penstock-0.1.0-" + dashed(published[0])
	got := unpacked(t, released(t, d)[name+".tar.gz"])
	readme := got[name+"/README.md 644"]
	for _, want := range []string{
		"# Penstock 0.1.0\n", "./penstock demo", "./penstock sim ", "./penstock up -f ", "./penstock status ",
		"./penstock explain ", "./penstock completion ", homepage + "/blob/v0.1.0/SECURITY.md",
	} {
		if !strings.Contains(readme, want) {
			t.Errorf("README.md: want %q, got\n%s", want, readme)
		}
	}
	for _, not := range []string{"make ", "bin/penstock up", "No release", "{VERSION}", "You need Go"} {
		if strings.Contains(readme, not) {
			t.Errorf("README.md: got %q in it, want a text for an unpacked archive:\n%s", not, readme)
		}
	}
	links := 0
	for entry, text := range got {
		page, _, _ := strings.Cut(strings.TrimPrefix(entry, name+"/"), " ")
		if path.Ext(page) != ".md" {
			continue
		}
		for _, m := range pageLink.FindAllStringSubmatch(text, -1) {
			links++
			if to := path.Join(name, path.Dir(page), m[1]); !strings.Contains(m[1], "://") && got[to+" 644"] == "" {
				t.Errorf("%s: a link to %s, which the archive does not have", page, m[1])
			}
		}
	}
	if links < 100 {
		t.Errorf("got %d links in all pages, want at least 100", links)
	}
}
