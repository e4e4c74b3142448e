package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const root = "../../.."

func compile(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "src"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"go.mod", "go.sum", "cmd", "discovery", "manifests", "multicluster", "picker",
		"translator", "xds"} {
		from, to := filepath.Join(root, part), filepath.Join(dir, "src", part)
		info, err := os.Stat(from)
		if err == nil && info.IsDir() {
			err = os.CopyFS(to, os.DirFS(from))
		} else if err == nil {
			var data []byte
			if data, err = os.ReadFile(from); err == nil {
				err = os.WriteFile(to, data, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "penstock")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "./cmd/penstock")
	cmd.Dir, cmd.Env = filepath.Join(dir, "src"), append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

func digestOf(t *testing.T, dir string) v1.Hash {
	t.Helper()
	index, err := layout.ImageIndexFromPath(filepath.Join(dir, "layout"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("got %v %v, want one manifest", manifest, err)
	}
	return manifest.Manifests[0].Digest
}

func TestImage_TwoBuildsGiveEqualDigests(t *testing.T) {
	platform := "linux/" + runtime.GOARCH
	var digests []v1.Hash
	for range 2 {
		out := filepath.Join(t.TempDir(), "image")
		if err := run("example.com/penstock:1", out, false, []string{platform + "=" + compile(t)}); err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digestOf(t, out))
	}
	if digests[0] != digests[1] {
		t.Errorf("digests: got %s and %s, want the same", digests[0], digests[1])
	}
}

// small builds an image of this test's program, because that is quick. It returns the image's
// folder and the program.
func small(t *testing.T, tag string, push bool) (dir, program string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "image")
	if err := run(tag, dir, push, []string{runtime.GOOS + "/" + runtime.GOARCH + "=" + program}); err != nil {
		t.Fatal(err)
	}
	return dir, program
}

func TestImage_RunsAsNonRootWithoutABaseImage(t *testing.T) {
	dir, program := small(t, "example.com/penstock:1", false)
	index, err := layout.ImageIndexFromPath(filepath.Join(dir, "layout"))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := index.ImageIndex(digestOf(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(whole); err != nil {
		t.Error(err)
	}
	manifest, err := whole.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	img, err := whole.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || config.Config.Entrypoint[0] != entrypoint(program) ||
		len(config.RootFS.DiffIDs) != 2 {
		t.Errorf("got %+v, want user 65532, the program as entrypoint, 2 layers", config)
	}
	rootfs := filepath.Join(dir, "rootfs-"+runtime.GOOS+"-"+runtime.GOARCH)
	want, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(rootfs, entrypoint(program))); err != nil || string(got) != string(want) {
		t.Errorf("the program in the image: got %d bytes, %v, want the %d of the program itself", len(got), err,
			len(want))
	}
	roots, err := os.ReadFile(filepath.Join(rootfs, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil || strings.Count(string(roots), "BEGIN CERTIFICATE") < 100 {
		t.Errorf("got %d bytes of root certificates: %v, want at least 100 certificates", len(roots), err)
	}
	if info, err := os.Stat(filepath.Join(rootfs, "tmp")); err != nil || info.Mode()&os.ModeSticky == 0 {
		t.Errorf("/tmp: got %v %v, want it sticky", info, err)
	}
}

func TestImage_SBOMRefersToItsImage(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)),
		registry.WithReferrersSupport(true)))
	defer server.Close()
	tag := strings.TrimPrefix(server.URL, "http://") + "/penstock:1"
	dir, _ := small(t, tag, true)
	ref, err := name.ParseReference(tag)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	if pushed, err := index.Digest(); err != nil || pushed != digestOf(t, dir) {
		t.Errorf("pushed %s: %v, want the image's own digest", pushed, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	referrers, err := remote.Referrers(ref.Context().Digest(manifest.Manifests[0].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	found, err := referrers.IndexManifest()
	if err != nil || len(found.Manifests) != 1 || found.Manifests[0].ArtifactType != string(sbomType) {
		t.Errorf("referrers: got %+v: %v, want one SBOM", found, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "sbom-"+runtime.GOOS+"-"+runtime.GOARCH+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		BOMFormat  string `json:"bomFormat"`
		Components []struct{ Name, Version, Purl string }
	}
	if err := json.Unmarshal(text, &bom); err != nil || bom.BOMFormat != "CycloneDX" {
		t.Fatalf(`%s: %v, want "CycloneDX"`, bom.BOMFormat, err)
	}
	std := false
	for _, c := range bom.Components {
		std = std || c.Purl == "pkg:golang/std@"+strings.TrimPrefix(runtime.Version(), "go")
	}
	if !std {
		t.Errorf("the SBOM: got %+v, want the standard library", bom.Components)
	}
}

func TestImage_ProgramOfAnotherPlatformIsAnError(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := run("example.com/penstock:1", filepath.Join(t.TempDir(), "image"), false,
		[]string{"plan9/mips=" + program}); err == nil || !strings.Contains(err.Error(), "not for plan9/mips") {
		t.Errorf("got %v, want not for plan9/mips", err)
	}
}
