package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

var pageLink = regexp.MustCompile(`\]\(([^)#\s]+)`)

// pages returns an archive's README.md and docs. Links to files outside of the archive become links
// to the repository at this version.
func (d *dist) pages() ([]file, error) {
	readme, err := d.text("archive.md")
	if err != nil {
		return nil, err
	}
	docs, err := tree(filepath.Join(d.source, "docs"), "docs")
	if err != nil {
		return nil, err
	}
	packed := map[string]bool{"LICENSE": true, "LICENSES-of-modules.txt": true}
	all := append([]file{{"README.md", 0o644, readme}}, docs...)
	for _, page := range all {
		packed[page.name] = true
	}
	for i, page := range all {
		if path.Ext(page.name) != ".md" {
			continue
		}
		all[i].data = pageLink.ReplaceAllFunc(page.data, func(link []byte) []byte {
			target := string(link[len("]("):])
			place := path.Join(path.Dir(page.name), target)
			if strings.Contains(target, "://") || packed[place] {
				return link
			}
			return fmt.Appendf(nil, "](%s/blob/v%s/%s", homepage, d.version, place)
		})
	}
	return all, nil
}

// text reads a file of manifests/release and inserts the version, also in links to main.
func (d *dist) text(name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(d.source, "manifests/release", name))
	filled := strings.NewReplacer("{VERSION}", d.version, "{REPOSITORY}", homepage,
		homepage+"/blob/main/", homepage+"/blob/v"+d.version+"/").Replace(string(data))
	return []byte(filled), err
}
