package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	nfpmfiles "github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

const homepage = "https://github.com/penstock-project/penstock"

type packager interface {
	Package(info *nfpm.Info, w io.Writer) error
	ConventionalFileName(info *nfpm.Info) string
}

// The program and Envoy are in one folder, where penstock looks for Envoy.
func (d *dist) packages() error {
	unit := filepath.Join(d.source, "manifests/release/linux")
	licenses, err := d.licenses()
	if err != nil {
		return err
	}
	for _, platform := range d.platforms {
		if platform.OS != "linux" {
			continue
		}
		if err := d.packagesOf(platform, unit, licenses); err != nil {
			return fmt.Errorf("packages for %s: %w", platform, err)
		}
	}
	return nil
}

func (d *dist) packagesOf(platform v1.Platform, unit string, licenses []byte) error {
	dir, err := os.MkdirTemp("", "penstock-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	envoy, texts := filepath.Join(dir, "envoy"), filepath.Join(dir, "licenses")
	if err := errors.Join(os.WriteFile(envoy, d.envoy(platform).program, 0o755),
		os.WriteFile(texts, licenses, 0o644)); err != nil {
		return err
	}
	for _, format := range []packager{deb.Default, rpm.DefaultRPM} {
		info := d.about(platform, unit, envoy, texts)
		var out bytes.Buffer
		if err := format.Package(info, &out); err != nil {
			return err
		}
		name := format.ConventionalFileName(info)
		sbom := d.put(name+".cdx.json", d.sboms[dashed(platform)])
		if err := errors.Join(sbom, d.put(name, out.Bytes())); err != nil {
			return err
		}
	}
	return nil
}

func (d *dist) about(platform v1.Platform, unit, envoy, licenses string) *nfpm.Info {
	entry := func(mode os.FileMode, from, to string) *nfpmfiles.Content {
		return &nfpmfiles.Content{Source: from, Destination: to,
			FileInfo: &nfpmfiles.ContentFileInfo{Mode: mode, MTime: d.time, Owner: "root", Group: "root"}}
	}
	folder := func(to string) *nfpmfiles.Content {
		c := entry(0o755, "", to)
		c.Type = nfpmfiles.TypeDir
		return c
	}
	link := entry(0o777, "/usr/lib/penstock/penstock", "/usr/bin/penstock")
	link.Type = nfpmfiles.TypeSymlink
	return nfpm.WithDefaults(&nfpm.Info{
		Name: "penstock", Arch: platform.Architecture, Platform: "linux", Version: d.version,
		Section: "net", Priority: "optional", Maintainer: "The Penstock authors (" + homepage + ")",
		Description: "Gateways for model servers: an xDS control plane for Envoy with an endpoint picker",
		Homepage:    homepage, License: "Apache-2.0", MTime: d.time,
		Overridables: nfpm.Overridables{
			Contents: nfpmfiles.Contents{
				entry(0o755, d.program(platform, "penstock"), "/usr/lib/penstock/penstock"),
				entry(0o755, envoy, "/usr/lib/penstock/envoy"),
				link,
				entry(0o644, filepath.Join(unit, "penstock.service"), "/usr/lib/systemd/system/penstock.service"),
				entry(0o644, filepath.Join(unit, "penstock.conf"), "/usr/lib/sysusers.d/penstock.conf"),
				entry(0o644, filepath.Join(d.source, "LICENSE"), "/usr/share/doc/penstock/copyright"),
				entry(0o644, licenses, "/usr/share/doc/penstock/LICENSES-of-modules.txt"),
				folder("/etc/penstock"),
				folder("/etc/penstock/config"),
			},
			Scripts: nfpm.Scripts{
				PreInstall:  filepath.Join(unit, "preinstall.sh"),
				PostInstall: filepath.Join(unit, "postinstall.sh"),
				PreRemove:   filepath.Join(unit, "preremove.sh"),
			},
			RPM: nfpm.RPM{BuildHost: "localhost", Summary: "Gateways for model servers"},
		},
	})
}

func (d *dist) formula() error {
	var b strings.Builder
	fmt.Fprintf(&b, `class Penstock < Formula
  desc "Gateways for model servers: an xDS control plane for Envoy with an endpoint picker"
  homepage "%s"
  version "%s"
  license "Apache-2.0"
`, homepage, d.version)
	for _, os := range []struct{ goos, block string }{{"darwin", "on_macos"}, {"linux", "on_linux"}} {
		var archs strings.Builder
		for _, arch := range []struct{ goarch, block string }{{"amd64", "on_intel"}, {"arm64", "on_arm"}} {
			name := fmt.Sprintf("penstock-%s-%s-%s.tar.gz", d.version, os.goos, arch.goarch)
			data, err := readFile(filepath.Join(d.out, name))
			if err != nil {
				return err
			}
			if data == nil {
				continue // this platform is not published
			}
			fmt.Fprintf(&archs, "    %s do\n      url \"%s/releases/download/v%s/%s\"\n      sha256 \"%s\"\n    end\n",
				arch.block, homepage, d.version, name, sum(data))
		}
		if archs.Len() > 0 {
			fmt.Fprintf(&b, "\n  %s do\n%s  end\n", os.block, &archs)
		}
	}
	b.WriteString(`
  def install
    libexec.install Dir["*"]
    bin.install_symlink libexec/"penstock"
  end

  def caveats
    on_macos do
      "Envoy is fetched by: penstock envoy install"
    end
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/penstock version")
  end
end
`)
	return d.put("penstock.rb", []byte(b.String()))
}

func readFile(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
