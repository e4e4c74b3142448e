package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the user and group of the process: nonroot of distroless images, and the one in the chart.
const user = "65532"

// file is a file or, with a slash at the end of its name, a folder of the image.
type file struct {
	name string
	mode int64
	data []byte
}

// base has the files of every platform.
func base() []file {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil { // PEM has no form for a constraint, without which the root would be trusted for more
			_ = pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // to memory
		}
	}
	return []file{
		{"etc/", 0o755, nil},
		{"etc/group", 0o644, []byte("root:x:0:\nnonroot:x:" + user + ":\n")},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:" + user + ":" + user + ":nonroot:/home/nonroot:/sbin/nologin\n")},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, roots.Bytes()},
		{"tmp/", 0o1777, nil},
	}
}

// program has the files of one platform.
func program(path string) ([]file, error) {
	data, err := os.ReadFile(path)
	return []file{{"usr/", 0o755, nil}, {"usr/local/", 0o755, nil}, {"usr/local/bin/", 0o755, nil}, {entrypoint(path)[1:], 0o755, data}}, err
}

// entrypoint is a program's path in its image.
func entrypoint(path string) string { return "/usr/local/bin/" + filepath.Base(path) }

// archive writes files, all of root and of one time.
func archive(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if f.name[len(f.name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := io.Copy(w, bytes.NewReader(f.data)); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
