package authority

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// File stores the authority in a file. Only one process writes the file.
type File struct {
	Path string
	// ReadAll reads the file. Default: os.ReadFile.
	ReadAll func(path string) ([]byte, error)
	// Replace writes the file atomically.
	Replace func(path string, raw []byte) error
}

// Read implements Secrets.
func (f File) Read(context.Context) (data map[string][]byte, version string, err error) {
	readAll := f.ReadAll
	if readAll == nil {
		readAll = os.ReadFile
	}
	raw, err := readAll(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	if err := json.Unmarshal(raw, &data); err != nil {
		return map[string][]byte{"damaged": nil}, fileVersion(raw), nil
	}
	return data, fileVersion(raw), nil
}

// Write implements Secrets.
func (f File) Write(ctx context.Context, data map[string][]byte, version string) error {
	if _, now, err := f.Read(ctx); err != nil || now != version {
		return errors.Join(ErrChanged, err)
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode the authority: %w", err)
	}
	return f.Replace(f.Path, raw)
}

func fileVersion(raw []byte) string {
	sum := sha256.Sum256(bytes.TrimSpace(raw))
	return hex.EncodeToString(sum[:])
}
