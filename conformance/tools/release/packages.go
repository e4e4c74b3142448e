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

// packages puts Envoy into the program's folder, where penstock looks for it.
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
	write := func(name string, data []byte, err error) error {
		return errors.Join(err, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	readme, err := d.text("linux/README.md")
	service, failed := d.text("linux/penstock.service")
	if err := errors.Join(write("envoy", d.envoy(platform).program, nil), write("licenses", licenses, nil),
		write("README.md", readme, err), write("penstock.service", service, failed)); err != nil {
		return err
	}
	// The C library must be as new as the one that Envoy's wheel needs. preinstall.sh runs useradd.
	for format, depends := range map[packager][]string{
		deb.Default:    {"libc6 (>= 2.31)"},
		rpm.DefaultRPM: {"glibc >= 2.31", "(shadow-utils or shadow)"},
	} {
		info := d.about(platform, unit, dir)
		info.Depends = depends
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

// about describes the package for a platform. unit is the folder of the package's scripts, and made
// is the folder of files generated for this release.
func (d *dist) about(platform v1.Platform, unit, made string) *nfpm.Info {
	entry := func(mode os.FileMode, from, to string) *nfpmfiles.Content {
		return &nfpmfiles.Content{Source: from, Destination: to,
			FileInfo: &nfpmfiles.ContentFileInfo{Mode: mode, MTime: d.time, Owner: "root", Group: "root"}}
	}
	folder := func(to string) *nfpmfiles.Content {
		c := entry(0o755, "", to)
		c.Type = nfpmfiles.TypeDir
		return c
	}
	vendors := entry(0o644, filepath.Join(unit, "completion/_penstock"), "/usr/share/zsh/vendor-completions/_penstock")
	vendors.Packager = "deb" // Debian's zsh looks there
	functions := entry(0o644, filepath.Join(unit, "completion/_penstock"), "/usr/share/zsh/site-functions/_penstock")
	functions.Packager = "rpm"
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
				entry(0o755, filepath.Join(made, "envoy"), "/usr/lib/penstock/envoy"),
				link,
				entry(0o644, filepath.Join(made, "penstock.service"), "/usr/lib/systemd/system/penstock.service"),
				entry(0o644, filepath.Join(unit, "penstock.conf"), "/usr/lib/sysusers.d/penstock.conf"),
				entry(0o644, filepath.Join(d.source, "LICENSE"), "/usr/share/doc/penstock/copyright"),
				entry(0o644, filepath.Join(made, "licenses"), "/usr/share/doc/penstock/LICENSES-of-modules.txt"),
				entry(0o644, filepath.Join(made, "README.md"), "/usr/share/doc/penstock/README.md"),
				entry(0o644, filepath.Join(unit, "completion/penstock"),
					"/usr/share/bash-completion/completions/penstock"),
				entry(0o644, filepath.Join(unit, "completion/penstock.fish"),
					"/usr/share/fish/vendor_completions.d/penstock.fish"),
				vendors, functions,
				folder("/etc/penstock"),
				folder("/etc/penstock/config"),
			},
			Scripts: nfpm.Scripts{
				PreInstall:  filepath.Join(unit, "preinstall.sh"),
				PostInstall: filepath.Join(unit, "postinstall.sh"),
				PreRemove:   filepath.Join(unit, "preremove.sh"),
				PostRemove:  filepath.Join(unit, "postremove.sh"),
			},
			Deb: nfpm.Deb{Predepends: []string{"passwd"}}, // useradd in preinst
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
