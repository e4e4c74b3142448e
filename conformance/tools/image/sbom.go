package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// about is what a Go program states about itself.
type about struct {
	main             debug.Module
	deps             []*debug.Module
	goVersion        string
	os, architecture string
	revision         string // with "-modified" if the tree had changes; "" if unknown
	time             time.Time
	sum              string // SHA-256 of the program
}

// inspect reads what the linker has stored in a program.
func inspect(path string, data []byte) (*about, error) {
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	sum := sha256.Sum256(data)
	out := &about{
		main: info.Main, deps: info.Deps, goVersion: strings.TrimPrefix(info.GoVersion, "go"), os: settings["GOOS"], architecture: settings["GOARCH"],
		revision: settings["vcs.revision"], time: created(settings["vcs.time"]), sum: hex.EncodeToString(sum[:]),
	}
	if settings["vcs.modified"] == "true" {
		out.revision += "-modified"
	}
	return out, nil
}

// sbom lists the modules in the program, and Go's standard library. It has no serial number and no time: the same program
// gives the same bytes.
func (a *about) sbom() ([]byte, error) {
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: purl(a.main.Path, a.main.Version), Type: cyclonedx.ComponentTypeApplication, Name: a.main.Path, Version: a.main.Version,
		PackageURL: purl(a.main.Path, a.main.Version), Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: a.sum}},
	}}
	modules := []*debug.Module{{Path: "std", Version: a.goVersion}}
	for _, m := range a.deps {
		if m.Replace != nil {
			m = m.Replace
		}
		modules = append(modules, m)
	}
	slices.SortFunc(modules, func(a, b *debug.Module) int { return strings.Compare(a.Path, b.Path) })
	var components []cyclonedx.Component
	var refs []string
	for _, m := range modules {
		c := cyclonedx.Component{BOMRef: purl(m.Path, m.Version), Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl(m.Path, m.Version)}
		if m.Sum != "" { // of the module's files, as in go.sum
			c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: m.Sum}}
		}
		components, refs = append(components, c), append(refs, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: bom.Metadata.Component.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return out.Bytes(), err
}

// purl is the package URL of a Go module.
func purl(path, version string) string {
	if version == "" {
		return "pkg:golang/" + path
	}
	return "pkg:golang/" + path + "@" + version
}
