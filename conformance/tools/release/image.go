package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const sbomType = types.MediaType("application/vnd.cyclonedx+json")

type built struct {
	platform v1.Platform
	image    v1.Image
	sbom     []byte
}

func build(platform v1.Platform, path, version string) (*built, error) {
	files, err := program(path)
	if err != nil {
		return nil, err
	}
	about, err := inspect(path, files[len(files)-1].data, version)
	if err != nil {
		return nil, err
	}
	if err := about.runsOn(platform); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	out := &built{platform: platform}
	if out.sbom, err = about.sbom(); err != nil {
		return nil, err
	}
	var layers []v1.Layer
	for _, list := range [][]file{base(), files} {
		l, err := layer(list)
		if err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.AppendLayers(img, layers...); err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = platform.OS, platform.Architecture, v1.Time{Time: about.time}
	config.Config = v1.Config{
		User: user + ":" + user, Entrypoint: []string{entrypoint(path)}, WorkingDir: "/",
		Env: []string{"PATH=/usr/local/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title": filepath.Base(path), "org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source":   "https://" + about.main.Path,
			"org.opencontainers.image.revision": about.revision,
		},
	}
	out.image, err = mutate.ConfigFile(img, config)
	return out, err
}

func layer(files []file) (v1.Layer, error) {
	data, err := archive(files, time.Unix(0, 0))
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
		tarball.WithMediaType(types.OCILayer))
}

// index adds the SBOM of each image as an artifact that refers to the image.
func index(all []*built) (v1.ImageIndex, error) {
	out := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range all {
		out = mutate.AppendManifests(out, mutate.IndexAddendum{
			Add: b.image, Descriptor: v1.Descriptor{Platform: &b.platform},
		})
	}
	for _, b := range all {
		subject, err := partial.Descriptor(b.image)
		if err != nil {
			return nil, err
		}
		artifact, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
			static.NewLayer(b.sbom, sbomType))
		if err != nil {
			return nil, err
		}
		artifact = mutate.Subject(mutate.ConfigMediaType(artifact, sbomType), *subject).(v1.Image)
		// Because of the unknown platform, container engines do not use the SBOM as an image.
		out = mutate.AppendManifests(out, mutate.IndexAddendum{Add: artifact, Descriptor: v1.Descriptor{
			ArtifactType: string(sbomType), Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"},
		}})
	}
	return out, nil
}

// created parses an RFC 3339 time; an invalid text gives the Unix epoch.
func created(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Unix(0, 0).UTC()
	}
	return t.UTC()
}
