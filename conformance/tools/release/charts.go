package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

var (
	chartName    = regexp.MustCompile(`(?m)^name: (\S+)$`)
	chartVersion = regexp.MustCompile(`(?m)^version: (\S+)$`)
)

// chartNames requires that charts have the release's version. The tree at a tag then has the
// published charts, except for digests of images.
func (d *dist) chartNames() (map[string]string, error) {
	found, err := filepath.Glob(filepath.Join(d.source, "manifests/charts/*/Chart.yaml"))
	if err != nil || len(found) == 0 {
		return nil, errors.Join(fmt.Errorf("no charts in %s", d.source), err)
	}
	names := map[string]string{}
	for _, about := range found {
		text, err := os.ReadFile(about)
		if err != nil {
			return nil, err
		}
		name, version := chartName.FindSubmatch(text), chartVersion.FindSubmatch(text)
		if name == nil || version == nil {
			return nil, fmt.Errorf("%s has no name or version", about)
		}
		if string(version[1]) != d.version {
			return nil, fmt.Errorf("%s has version %q: write %s, and run make golden", about, version[1], d.version)
		}
		names[filepath.Dir(about)] = string(name[1])
	}
	return names, nil
}

func (d *dist) charts(names map[string]string) error {
	for dir, name := range names {
		if err := d.chart(dir, name); err != nil {
			return err
		}
	}
	return nil
}

func (d *dist) chart(dir, name string) error {
	files, err := tree(dir, name)
	if err != nil {
		return err
	}
	var images []string
	for i, f := range files {
		if f.name == name+"/values.yaml" {
			files[i].data, images = d.pinValues(f.data)
		}
	}
	if len(images) == 0 {
		return fmt.Errorf("%s/values.yaml names no image of this release", dir)
	}
	packed, err := compressed(files, d.time)
	if err != nil {
		return err
	}
	return d.putWithParts(fmt.Sprintf("%s-%s.tgz", name, d.version), packed, images)
}

func (d *dist) pinValues(values []byte) ([]byte, []string) {
	tag := imageLine.FindSubmatch(values)
	if tag == nil || d.digests[string(tag[1])] == "" {
		return values, nil
	}
	name := string(tag[1])
	return imageLine.ReplaceAll(values, []byte("${0}@"+d.digests[name])), []string{name}
}

func (d *dist) manifests() error {
	files, err := tree(filepath.Join(d.source, "manifests/charts/penstock/crds"), "")
	if err != nil {
		return err
	}
	var crds []byte
	for _, f := range files {
		crds = append(append(crds, "---\n"...), bytes.TrimPrefix(f.data, []byte("---\n"))...)
	}
	objects, err := os.ReadFile(filepath.Join(d.source, "manifests/install/penstock.yaml"))
	if err != nil {
		return err
	}
	var images []string
	for _, name := range slices.Sorted(maps.Keys(d.digests)) {
		pinned := bytes.ReplaceAll(objects, []byte(name+"\n"), []byte(name+"@"+d.digests[name]+"\n"))
		if !bytes.Equal(pinned, objects) {
			objects, images = pinned, append(images, name)
		}
	}
	if len(images) == 0 {
		return fmt.Errorf("manifests/install/penstock.yaml names no image of version %s: run make golden", d.version)
	}
	if err := d.putWithParts(fmt.Sprintf("penstock-crds-%s.yaml", d.version), crds, nil); err != nil {
		return err
	}
	all := append(append(crds, "---\n"...), objects...)
	return d.putWithParts(fmt.Sprintf("penstock-install-%s.yaml", d.version), all, images)
}

func (d *dist) putWithParts(name string, data []byte, images []string) error {
	var parts []cyclonedx.Component
	for _, image := range images {
		parts = append(parts, cyclonedx.Component{
			BOMRef: image + "@" + d.digests[image], Type: cyclonedx.ComponentTypeContainer,
			Name: image, Version: d.digests[image],
		})
	}
	return d.putWithSBOM(name, data, parts)
}
