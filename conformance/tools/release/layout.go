package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// run takes programs in the form OS/ARCH=PROGRAM.
func run(tag, out string, push bool, programs []string) error {
	if out == "" || len(programs) == 0 {
		return errors.New("name the image, the folder and a program: see -help")
	}
	var all []*built
	for _, p := range programs {
		text, path, _ := strings.Cut(p, "=")
		platform, err := v1.ParsePlatform(text)
		if err != nil {
			return err
		}
		b, err := build(*platform, path, "")
		if err != nil {
			return err
		}
		all = append(all, b)
	}
	digest, err := write(out, tag, all)
	if err == nil && push {
		err = pushed(tag, all)
	}
	if err != nil {
		return err
	}
	fmt.Printf("%s@%s\n", tag, digest)
	return nil
}

func pushed(tag string, all []*built) error {
	ref, err := name.ParseReference(tag)
	if err != nil {
		return err
	}
	whole, err := index(all)
	if err == nil {
		err = remote.WriteIndex(ref, whole, remote.WithAuthFromKeychain(authn.DefaultKeychain))
	}
	if err != nil {
		return fmt.Errorf("push %s: %w", tag, err)
	}
	return nil
}

func write(dir, tag string, all []*built) (v1.Hash, error) {
	if err := replaced(dir, "layout/oci-layout"); err != nil {
		return v1.Hash{}, err
	}
	place := filepath.Join(dir, "layout")
	digest, err := writeLayout(place, tag, all)
	if err != nil {
		return v1.Hash{}, err
	}
	for _, b := range all {
		if err := os.WriteFile(filepath.Join(dir, "sbom-"+dashed(b.platform)+".cdx.json"), b.sbom, 0o644); err != nil {
			return v1.Hash{}, err
		}
		if err := unpack(place, digest, b, filepath.Join(dir, "rootfs-"+dashed(b.platform))); err != nil {
			return v1.Hash{}, err
		}
	}
	values := fmt.Sprintf("image: %s@%s\n", tag, digest)
	return digest, os.WriteFile(filepath.Join(dir, "values.yaml"), []byte(values), 0o644)
}

func writeLayout(place, tag string, all []*built) (v1.Hash, error) {
	if _, err := name.ParseReference(tag); err != nil {
		return v1.Hash{}, err
	}
	whole, err := index(all)
	if err != nil {
		return v1.Hash{}, err
	}
	to, err := layout.Write(place, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := to.AppendIndex(whole,
		layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag})); err != nil {
		return v1.Hash{}, err
	}
	return whole.Digest()
}

func dashed(platform v1.Platform) string { return strings.ReplaceAll(platform.String(), "/", "-") }

func pushDist(dist string) error {
	archives, err := filepath.Glob(filepath.Join(dist, "*-image-*.tar"))
	if err != nil || len(archives) == 0 {
		return errors.Join(fmt.Errorf("%s has no images", dist), err)
	}
	for _, path := range archives {
		dir, err := os.MkdirTemp("", "penstock-layout-")
		if err != nil {
			return err
		}
		err = pushLayout(path, dir)
		if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
			return fmt.Errorf("push %s: %w", path, err)
		}
	}
	return nil
}

func pushLayout(path, dir string) error {
	data, err := os.Open(path)
	if err != nil {
		return err
	}
	defer data.Close()
	if err := untar(data, dir); err != nil {
		return err
	}
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return err
	}
	for _, m := range manifest.Manifests {
		ref, err := name.ParseReference(m.Annotations["org.opencontainers.image.ref.name"])
		if err != nil {
			return err
		}
		whole, err := all.ImageIndex(m.Digest)
		if err != nil {
			return err
		}
		if err := remote.WriteIndex(ref, whole, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return err
		}
		fmt.Printf("%s@%s\n", ref, m.Digest)
		if err := pushSignature(path+".sig", ref, m.Digest); err != nil {
			return err
		}
	}
	return nil
}

func unpack(place string, whole v1.Hash, b *built, dir string) error {
	hash, err := b.image.Digest()
	if err != nil {
		return err
	}
	all, err := layout.ImageIndexFromPath(place)
	if err == nil {
		all, err = all.ImageIndex(whole)
	}
	if err != nil {
		return err
	}
	img, err := all.Image(hash)
	if err != nil {
		return err
	}
	files := mutate.Extract(img)
	defer files.Close()
	return untar(files, dir)
}

func untar(from io.Reader, dir string) error {
	for r := tar.NewReader(from); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path, mode := filepath.Join(dir, header.Name), header.FileInfo().Mode()
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, data, mode.Perm())
			}
		}
		if err == nil {
			err = os.Chmod(path, mode)
		}
		if err != nil {
			return err
		}
	}
}
