package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

type dist struct {
	version, source, programs, modules, wheels, out, key string
	platforms                                            []v1.Platform

	time    time.Time // time of the commit, used for all files
	digests map[string]string
	sboms   map[string][]byte
	envoys  []wheel
}

func (d *dist) run() error {
	if d.version == "" {
		return errors.New("name the version: see -help")
	}
	names, err := d.chartNames()
	if err != nil {
		return err
	}
	if err := replaced(d.out, sumsFile); err != nil {
		return err
	}
	if err := d.put(sumsFile, nil); err != nil { // replaced looks for this file; d.sums fills it
		return err
	}
	d.digests, d.sboms = map[string]string{}, map[string][]byte{}
	charts := func() error { return d.charts(names) }
	steps := []func() error{
		d.installer, d.readWheels, d.archives, d.packages, d.formula, d.images, charts, d.manifests, d.sums,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// replaced removes an earlier folder dir and creates a new one. A folder without the file mark was
// written by another program, which is an error.
func replaced(dir, mark string) error {
	found, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, mark)); err != nil && len(found) > 0 {
		return fmt.Errorf("%s is not replaced: it has files, and no %s, which this program writes", dir, mark)
	}
	return errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755))
}

func (d *dist) put(name string, data []byte) error {
	return os.WriteFile(filepath.Join(d.out, name), data, 0o644)
}

func (d *dist) archives() error {
	licenses, err := d.licenses()
	if err != nil {
		return err
	}
	own, err := os.ReadFile(filepath.Join(d.source, "LICENSE"))
	if err != nil {
		return err
	}
	pages, err := d.pages()
	if err != nil {
		return err
	}
	for _, platform := range d.platforms {
		path := d.program(platform, "penstock")
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		about, err := inspect(path, data, d.version)
		if err != nil {
			return err
		}
		if err := about.runsOn(platform); err != nil {
			return err
		}
		d.time = about.time
		envoy := d.envoy(platform)
		if platform.OS == "linux" && envoy == nil {
			return fmt.Errorf("%s has no wheel of Envoy for %s: run make release-fetch", d.wheels, platform)
		}
		name := fmt.Sprintf("penstock-%s-%s", d.version, dashed(platform))
		files := []file{
			{name + "/", 0o755, nil}, {name + "/LICENSE", 0o644, own},
			{name + "/LICENSES-of-modules.txt", 0o644, licenses},
		}
		if platform.OS == "linux" {
			files = append(files, file{name + "/envoy", 0o755, envoy.program})
			about.parts = append(about.parts, envoy.component())
		}
		files = append(files, file{name + "/penstock", 0o755, data})
		for _, page := range pages {
			files = append(files, file{name + "/" + page.name, page.mode, page.data})
		}
		packed, err := compressed(files, d.time)
		if err != nil {
			return err
		}
		sbom, err := about.sbom()
		if err == nil {
			err = errors.Join(d.put(name+".tar.gz", packed), d.put(name+".cdx.json", sbom))
		}
		if err != nil {
			return err
		}
		d.sboms[dashed(platform)] = sbom
	}
	return nil
}

func (d *dist) program(platform v1.Platform, name string) string {
	return filepath.Join(d.programs, dashed(platform), name)
}

var imageLine = regexp.MustCompile(`(?m)^image: (\S+)$`)

func (d *dist) images() error {
	for program, chart := range map[string]string{"penstock": "penstock", "penstock-external": "external"} {
		values, err := os.ReadFile(filepath.Join(d.source, "manifests/charts", chart, "values.yaml"))
		if err != nil {
			return err
		}
		tag := imageLine.FindSubmatch(values)
		if tag == nil {
			return fmt.Errorf("chart %s names no image", chart)
		}
		if err := d.image(program, string(tag[1])); err != nil {
			return err
		}
	}
	return nil
}

func (d *dist) image(program, tag string) error {
	var all []*built
	for _, platform := range d.platforms {
		if platform.OS != "linux" {
			continue
		}
		b, err := build(platform, d.program(platform, program), d.version)
		if err != nil {
			return err
		}
		all = append(all, b)
		name := fmt.Sprintf("%s-image-%s-%s.cdx.json", program, d.version, dashed(platform))
		if err := d.put(name, b.sbom); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "penstock-layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	digest, err := writeLayout(dir, tag, all)
	if err != nil {
		return err
	}
	d.digests[tag] = digest.String()
	files, err := tree(dir, "")
	if err != nil {
		return err
	}
	packed, err := archive(files, d.time)
	if err == nil {
		err = d.put(fmt.Sprintf("%s-image-%s.tar", program, d.version), packed)
	}
	return err
}

func (d *dist) installer() error {
	data, err := os.ReadFile(filepath.Join(d.source, "manifests/release/install.sh"))
	if err != nil {
		return err
	}
	if !strings.Contains(string(data), "version=${PENSTOCK_VERSION:-"+d.version+"}\n") {
		return fmt.Errorf("install.sh does not install version %s by default: change it there", d.version)
	}
	return d.put("install.sh", data)
}

func sum(data []byte) string {
	hash := sha256.Sum256(data)
	return hex.EncodeToString(hash[:])
}
