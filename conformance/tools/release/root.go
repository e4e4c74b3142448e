package main

import (
	"bytes"
	"encoding/pem"
	"os"
	"path/filepath"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the ID of the process's user and group, as in distroless images (nonroot) and in the
// chart.
const user = "65532"

func base() []file {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		// PEM cannot express a root's constraint, so clients would trust a constrained root for too
		// much.
		if root.Constraint == nil {
			_ = pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // cannot fail
		}
	}
	return []file{
		{"etc/", 0o755, nil},
		{"etc/group", 0o644, []byte("root:x:0:\nnonroot:x:" + user + ":\n")},
		{
			"etc/passwd", 0o644,
			[]byte("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:" + user + ":" + user +
				":nonroot:/home/nonroot:/sbin/nologin\n"),
		},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, roots.Bytes()},
		{"tmp/", 0o1777, nil},
	}
}

func program(path string) ([]file, error) {
	data, err := os.ReadFile(path)
	return []file{{"usr/", 0o755, nil}, {"usr/local/", 0o755, nil}, {"usr/local/bin/", 0o755, nil},
		{entrypoint(path)[1:], 0o755, data}}, err
}

func entrypoint(path string) string { return "/usr/local/bin/" + filepath.Base(path) }
