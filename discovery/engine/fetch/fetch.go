package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

// DefaultURL is the URL of the default registry.
const DefaultURL = "https://huggingface.co"

// Config configures a Fetcher.
type Config struct {
	// Folder is the cache. Fetch creates it.
	Folder string
	// Limit bounds the bytes of all models in Folder; 0: no limit.
	Limit int64
	// Reserve is the number of bytes that stay free on the disk; 0: 1 GiB.
	Reserve int64
	// Stall is how long a response may send no byte before the attempt fails; 0: 30 seconds.
	Stall time.Duration
	// Backoff is the pause before the second attempt; 0: 1 second. It doubles before each further
	// attempt.
	Backoff time.Duration
}

// Fetcher downloads models into one cache. It is safe for concurrent use.
type Fetcher struct {
	cfg    Config
	client *http.Client
}

// New makes a Fetcher. It neither reads nor writes the cache.
func New(cfg Config) *Fetcher {
	if cfg.Reserve == 0 {
		cfg.Reserve = 1 << 30
	}
	if cfg.Stall == 0 {
		cfg.Stall = 30 * time.Second
	}
	if cfg.Backoff == 0 {
		cfg.Backoff = time.Second
	}
	return &Fetcher{cfg: cfg, client: newClient(cfg.Stall)}
}

// Source names a model.
type Source struct {
	URL   string // URL of the registry; "": DefaultURL
	Token string // the credential for the registry; "": none
	// Name is ORG/NAME.
	Name string
	// Revision is a branch, a tag or a commit; "": main.
	Revision string
	// File is the path of a file in the repository, or the quantization of a GGUF file, such as
	// Q4_K_M. If it is "", all files that an engine may need are fetched. From a repository that
	// has only GGUF files, one model is fetched (see choose).
	File string
}

// Model is a model in the cache.
type Model struct {
	Commit string
	// Path is the snapshot's folder, or the first file of a GGUF model.
	Path    string
	Offline bool // the registry could not be reached, so the model in the cache is used
}

// Progress is the progress of a fetch. It includes bytes that were already in the cache.
type Progress struct {
	File         string // the file that is being downloaded
	Files, Total int
	Bytes, Size  int64
}

// Error is a mistake in a model's source, or a failure of its registry.
type Error struct {
	// Field is the field in a deployment's spec.model with the mistake: registry, name, version or
	// file; "": no field.
	Field        string
	Problem, Fix string
	// Unasked means that the source is invalid, so no request was sent to a registry.
	Unasked     bool
	unreachable bool
}

func (e *Error) Error() string { return e.Problem + ": " + e.Fix }

func wrong(field, fix, format string, args ...any) *Error {
	return &Error{Field: field, Problem: fmt.Sprintf(format, args...), Fix: fix}
}

func unasked(field, fix, format string, args ...any) *Error {
	e := wrong(field, fix, format, args...)
	e.Unasked = true
	return e
}

// Fetch downloads the files of a model that the cache lacks, and returns the model. progress, which
// may be nil, is called during downloads, at most ten times a second.
func (f *Fetcher) Fetch(ctx context.Context, s Source, progress func(Progress)) (Model, error) {
	repo, err := f.repository(&s)
	if err != nil {
		return Model{}, err
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	if isCommit(s.Revision) { // the listing of a commit never changes
		if m, err := repo.local(s.Revision, s); err == nil {
			return m, nil
		}
	}
	l, err := f.list(ctx, s)
	if err != nil {
		if m, offline := repo.offline(s, err); offline {
			return m, nil
		}
		return Model{}, err
	}
	chosen, path, err := choose(l.Files, s.File)
	if err != nil {
		return Model{}, err
	}
	if err := repo.download(ctx, f, s, l, chosen, progress); err != nil {
		return Model{}, err
	}
	if err := repo.keep(l, s.Revision); err != nil {
		return Model{}, disk(err)
	}
	return Model{Commit: l.Commit, Path: filepath.Join(repo.snapshot(l.Commit), filepath.FromSlash(path))}, nil
}

func (f *Fetcher) repository(s *Source) (*repository, error) {
	if s.URL == "" {
		s.URL = DefaultURL
	}
	s.URL = strings.TrimRight(s.URL, "/")
	if s.Revision == "" {
		s.Revision = "main"
	}
	if err := checkName(s.Name); err != nil {
		return nil, err
	}
	if err := checkPath(s.Revision); err != nil {
		return nil, unasked("version", "write a branch, a tag or a commit", "%q is no revision: %v", s.Revision, err)
	}
	folder := folderOf(s.Name)
	return &repository{dir: filepath.Join(f.cfg.Folder, folder),
		locks: filepath.Join(f.cfg.Folder, ".locks", folder)}, nil
}

func folderOf(name string) string { return "models--" + strings.ReplaceAll(name, "/", "--") }

const maxName = 96 // in bytes, as at Hugging Face

func checkName(name string) error {
	fix := "write ORG/NAME, as in the address of the model's page"
	org, model, ok := strings.Cut(name, "/")
	if !ok || org == "" || model == "" || len(name) > maxName {
		return unasked("name", fix, "%q is no name of a model", name)
	}
	for _, part := range []string{org, model} {
		if strings.Contains(part, "--") || strings.Contains(part, "..") || part[0] == '.' || part[0] == '-' {
			return unasked("name", fix, "%q is no name of a model", name)
		}
		for _, r := range part {
			if !strings.ContainsRune("-_.", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
				return unasked("name", fix, "%q is no name of a model", name)
			}
		}
	}
	return nil
}

const (
	maxPath = 512
	maxPart = 255
)

func checkPath(path string) error {
	if path == "" || len(path) > maxPath {
		return errors.New("a path has 1 to 512 bytes")
	}
	for _, r := range path {
		if r < ' ' || r == 0x7f || r == '\\' || r == 0xfffd {
			return errors.New("it has control characters or backslashes")
		}
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." || len(part) > maxPart || strings.HasSuffix(part, ".incomplete") {
			return errors.New("it leads elsewhere")
		}
	}
	return nil
}

func isCommit(s string) bool { return isHex(s, 40) }

func isHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	return strings.Trim(s, "0123456789abcdef") == ""
}
