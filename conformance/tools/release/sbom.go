package main

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

type about struct {
	main             debug.Module
	deps             []*debug.Module
	goVersion        string
	os, architecture string
	revision         string // commit, with "-modified" if the tree had changes; "": unknown
	time             time.Time
	sum              string
	parts            []cyclonedx.Component // in addition to the modules, such as Envoy
}

// inspect reads a program's modules. A non-empty version replaces the main module's version, which
// is a commit in an untagged tree.
func inspect(path string, data []byte, version string) (*about, error) {
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if version != "" {
		info.Main.Version = "v" + version
	}
	out := &about{
		main: info.Main, deps: info.Deps, goVersion: strings.TrimPrefix(info.GoVersion, "go"), os: settings["GOOS"],
		architecture: settings["GOARCH"],
		revision:     settings["vcs.revision"], time: created(settings["vcs.time"]), sum: sum(data),
	}
	if settings["vcs.modified"] == "true" {
		out.revision += "-modified"
	}
	return out, nil
}

func (a *about) runsOn(platform v1.Platform) error {
	if a.os != platform.OS || a.architecture != platform.Architecture {
		return fmt.Errorf("the program is for %s/%s, not for %s", a.os, a.architecture, platform)
	}
	return nil
}

// sbom has no serial number and no time, so that equal programs give equal bytes.
func (a *about) sbom() ([]byte, error) {
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: purl(a.main.Path, a.main.Version), Type: cyclonedx.ComponentTypeApplication, Name: a.main.Path,
		Version:    a.main.Version,
		PackageURL: purl(a.main.Path, a.main.Version),
		Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: a.sum}},
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
		c := cyclonedx.Component{BOMRef: purl(m.Path, m.Version), Type: cyclonedx.ComponentTypeLibrary, Name: m.Path,
			Version: m.Version, PackageURL: purl(m.Path, m.Version)}
		if m.Sum != "" { // hash of the module's files, as in go.sum
			c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: m.Sum}}
		}
		components, refs = append(components, c), append(refs, c.BOMRef)
	}
	for _, part := range a.parts {
		components, refs = append(components, part), append(refs, part.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: bom.Metadata.Component.BOMRef, Dependencies: &refs}}
	return encode(bom)
}

func encode(bom *cyclonedx.BOM) ([]byte, error) {
	var out bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return out.Bytes(), err
}

func (d *dist) putWithSBOM(name string, data []byte, parts []cyclonedx.Component) error {
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: name, Type: cyclonedx.ComponentTypeFile, Name: name, Version: d.version,
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sum(data)}},
	}}
	bom.Components = &parts
	sbom, err := encode(bom)
	if err != nil {
		return err
	}
	return errors.Join(d.put(name, data), d.put(name+".cdx.json", sbom))
}

func purl(path, version string) string {
	if version == "" {
		return "pkg:golang/" + path
	}
	return "pkg:golang/" + path + "@" + version
}
