package memory

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Model has the properties of a model that Estimate needs. Its numbers are not negative, and so
// small that no product in Estimate overflows.
type Model struct {
	// Fixed is the size in bytes of the weights that an engine loads without conversion. Floats is
	// the number of the other weights, which an engine converts to its own data type.
	Fixed, Floats int64
	// Embedding is the part of Fixed, in bytes, that llama.cpp keeps in main memory.
	Embedding int64
	Quantized bool
	Layers    int64
	// Keys and Values are the numbers of elements in the cache for one token, in all layers whose
	// cache holds the whole context. WindowedKeys and WindowedValues are the same numbers for the
	// layers whose cache holds only Window tokens.
	Keys, Values                 int64
	WindowedKeys, WindowedValues int64
	Window                       int64
	// CacheType is the data type of the cache that the model's files set; "": not set.
	CacheType string
	Context   int64 // the model's context length in tokens; 0: unknown
}

const (
	maxFiles    = 1024
	maxGGUF     = 64 << 20 // bytes of all headers of a GGUF model; they contain the vocabulary
	maxHeader   = 16 << 20 // bytes of all headers of a model in safetensors
	maxConfig   = 4 << 20
	maxTensors  = 1 << 18 // bounds the number of tensors in all files
	maxLayers   = 1 << 12
	maxHeads    = 1 << 12
	maxHead     = 1 << 14
	maxContext  = 1 << 30
	maxWeights  = int64(1) << 50 // bounds the size of all weights, in bytes
	maxElements = int64(1) << 28 // bounds the elements of the cache for one token
)

var errUnknown = errors.New("the memory of this model is not known")

func unknown(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUnknown, fmt.Sprintf(format, args...))
}

// Read reads the properties of a model from a GGUF file, or from a folder with safetensors.
func Read(path string) (Model, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Model{}, err
	}
	if info.IsDir() {
		return readFolder(path)
	}
	parts, err := shards(path)
	if err != nil {
		return Model{}, err
	}
	g := gguf{left: maxGGUF}
	for i, part := range parts {
		if err := open(part, func(f io.Reader, size int64) error { return g.read(f, size, i == 0) }); err != nil {
			return Model{}, err
		}
	}
	return g.model(len(parts))
}

// open calls read with a regular file and its size. It rejects other files.
func open(path string, read func(f io.Reader, size int64) error) error {
	info, err := os.Stat(path) // checked first, because opening a named pipe blocks
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return unknown("%s is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if info, err = f.Stat(); err != nil {
		return err
	}
	return read(f, info.Size())
}

// shards returns all files of a GGUF model, from the path of the first, such as
// NAME-00001-of-00003.gguf.
func shards(path string) ([]string, error) {
	stem, ok := strings.CutSuffix(path, ".gguf")
	const form = "-00001-of-00003"
	if !ok || len(stem) < len(form) {
		return []string{path}, nil
	}
	var first, count int
	tail := stem[len(stem)-len(form):]
	if n, err := fmt.Sscanf(tail, "-%05d-of-%05d", &first, &count); n != 2 || err != nil {
		return []string{path}, nil
	}
	if first != 1 || count < 1 || count > maxFiles {
		return nil, unknown("%s is not the first of its files", path)
	}
	var out []string
	for i := range count {
		out = append(out, fmt.Sprintf("%s-%05d-of-%05d.gguf", stem[:len(stem)-len(form)], i+1, count))
	}
	return out, nil
}

func readFolder(dir string) (m Model, err error) {
	var c config
	for _, file := range []struct {
		name     string
		into     any
		optional bool
	}{{"config.json", &c, false}, {"tokenizer_config.json", &c.tokenizer, true}} {
		err := open(filepath.Join(dir, file.name), func(f io.Reader, size int64) error {
			return decode(f, size, maxConfig, file.into)
		})
		if err != nil && !(file.optional && errors.Is(err, os.ErrNotExist)) {
			return m, err
		}
	}
	if err := c.model(&m); err != nil {
		return m, err
	}
	files, err := weightFiles(dir)
	if err != nil {
		return m, err
	}
	s := safetensors{left: maxHeader, bytes: map[string]tensor{}}
	for _, name := range files {
		if err := open(filepath.Join(dir, name), s.read); err != nil {
			return m, err
		}
	}
	return m, s.sum(&m, c.Tied == nil || *c.Tied)
}

// weightFiles returns the names of the files with weights. It omits consolidated.safetensors, in
// which some folders have the same weights again in Mistral's own format.
func weightFiles(dir string) (names []string, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	all, err := f.ReadDir(8 * maxFiles)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for _, entry := range all {
		if name := entry.Name(); strings.HasSuffix(name, ".safetensors") && strings.HasPrefix(name, "model") {
			names = append(names, name)
		}
	}
	if len(names) == 0 || len(names) > maxFiles || len(all) == 8*maxFiles {
		return nil, unknown("%s has no weights in files model*.safetensors", dir)
	}
	slices.Sort(names)
	return names, nil
}
