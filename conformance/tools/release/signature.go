package main

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// cosign reads this payload type, and the signature in this annotation.
const (
	payloadType         = types.MediaType("application/vnd.dev.cosign.simplesigning.v1+json")
	signatureAnnotation = "dev.cosignproject.cosign/signature"
)

// sign signs the SHA-256 of data as cosign sign-blob does: ECDSA (ASN.1), in Base64.
func sign(key *ecdsa.PrivateKey, data []byte) (string, error) {
	hash := sha256.Sum256(data)
	signature, err := ecdsa.SignASN1(rand.Reader, key, hash[:])
	return base64.StdEncoding.EncodeToString(signature), err
}

// signImages writes each image's signature to NAME.tar.sig beside its archive. It signs the payload
// for cosign verify, which push later sends to the registry.
func (d *dist) signImages(key *ecdsa.PrivateKey) error {
	for _, tag := range slices.Sorted(maps.Keys(d.digests)) {
		ref, err := name.ParseReference(tag)
		if err != nil {
			return err
		}
		signature, err := sign(key, payload(ref, d.digests[tag]))
		if err != nil {
			return err
		}
		archive := fmt.Sprintf("%s-image-%s.tar", path.Base(ref.Context().RepositoryStr()), d.version)
		if err := d.put(archive+".sig", []byte(signature+"\n")); err != nil {
			return err
		}
	}
	return nil
}

func payload(ref name.Reference, digest string) []byte {
	text, err := json.Marshal(map[string]any{
		"critical": map[string]any{
			"identity": map[string]string{"docker-reference": ref.Context().Name()},
			"image":    map[string]string{"docker-manifest-digest": digest},
			"type":     "cosign container image signature",
		},
		"optional": nil,
	})
	if err != nil {
		panic(err) // cannot fail: the payload has plain maps
	}
	return text
}

// pushSignature pushes the signature in file to the tag where cosign looks for it. It does nothing
// if the file does not exist.
func pushSignature(file string, ref name.Reference, digest v1.Hash) error {
	signature, err := readFile(file)
	if err != nil || signature == nil {
		return err
	}
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		types.OCIConfigJSON), mutate.Addendum{
		Layer:       static.NewLayer(payload(ref, digest.String()), payloadType),
		Annotations: map[string]string{signatureAnnotation: strings.TrimSpace(string(signature))},
	})
	if err != nil {
		return err
	}
	at := ref.Context().Tag(strings.ReplaceAll(digest.String(), ":", "-") + ".sig")
	if err := remote.Write(at, image, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return err
	}
	fmt.Println(at)
	return nil
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := signingKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}
