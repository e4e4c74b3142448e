package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// A module without a license file is an error.
func (d *dist) licenses() ([]byte, error) {
	list, err := os.ReadFile(d.modules)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for line := range strings.Lines(string(list)) {
		module, dir, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			return nil, fmt.Errorf("%s: %q has no folder of the module", d.modules, line)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		found := false
		for _, e := range entries {
			if e.IsDir() || !licenseFile.MatchString(e.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, err
			}
			found = true
			fmt.Fprintf(&out, "==== %s: %s\n\n%s\n\n", module, e.Name(), bytes.TrimSpace(text))
		}
		if !found {
			return nil, fmt.Errorf("module %s has no license file in %s", module, dir)
		}
	}
	return out.Bytes(), nil
}
