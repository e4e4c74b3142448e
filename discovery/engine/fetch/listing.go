package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const (
	maxListing = 16 << 20
	maxFiles   = 10_000
	maxSize    = 4 << 40 // bounds the size of a file, in bytes
)

// listing lists the files of a commit, sorted by path.
type listing struct {
	Commit string `json:"commit"`
	Files  []file `json:"files"`
}

type file struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	// Hash is the SHA-256 in 64 digits, or Git's blob hash in 40 digits.
	Hash string `json:"hash"`
}

func (f *Fetcher) list(ctx context.Context, s Source) (listing, error) {
	address := s.URL + "/api/models/" + s.Name + "/revision/" + url.PathEscape(s.Revision) + "?blobs=true"
	var raw []byte
	err := f.attempts(ctx, func() (bool, error) {
		resp, err := f.get(ctx, s, address, 0)
		if err != nil {
			return false, err
		}
		defer resp.close()
		if err := accepted(resp.StatusCode, s); err != nil {
			return false, err
		}
		raw, err = io.ReadAll(io.LimitReader(resp, maxListing+1))
		return false, err
	})
	if err != nil {
		return listing{}, err
	}
	return parse(raw)
}

// errUnreachable marks failures after which another attempt may succeed.
var errUnreachable = errors.New("the registry does not answer as it should")

func accepted(status int, s Source) error {
	switch {
	case status == http.StatusOK || status == http.StatusPartialContent:
		return nil
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		if s.Token == "" {
			return wrong("registry", "add a credential with the right to read it, or correct the name",
				"the registry requires a credential for %s, or has no such model", s.Name)
		}
		return wrong("registry", "accept the model's terms on its page, or correct the credential",
			"the registry denies the credential access to %s", s.Name)
	case status == http.StatusNotFound:
		return wrong("name", "correct the name or the revision",
			"the registry has no model %s with revision %s", s.Name, s.Revision)
	}
	return &statusError{status}
}

func parse(raw []byte) (listing, error) {
	lie := func(format string, args ...any) (listing, error) {
		return listing{}, wrong("registry", "report it to the registry, or use another one", format, args...)
	}
	if len(raw) > maxListing {
		return lie("the registry's list of files has more than %d bytes", maxListing)
	}
	var answer struct {
		SHA      string `json:"sha"`
		Siblings []struct {
			Name string `json:"rfilename"`
			Size int64  `json:"size"`
			Blob string `json:"blobId"`
			LFS  *struct {
				SHA256 string `json:"sha256"`
				Size   int64  `json:"size"`
			} `json:"lfs"`
		} `json:"siblings"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return lie("the registry's list of files is no JSON of this form: %v", err)
	}
	if !isCommit(answer.SHA) {
		return lie("the registry names no commit")
	}
	if len(answer.Siblings) > maxFiles {
		return lie("the model has %d files, more than %d", len(answer.Siblings), maxFiles)
	}
	l := listing{Commit: answer.SHA}
	for _, s := range answer.Siblings {
		f := file{Path: s.Name, Size: s.Size, Hash: s.Blob}
		digits := 40
		if s.LFS != nil {
			f.Hash, f.Size, digits = s.LFS.SHA256, s.LFS.Size, 64
		}
		if err := checkPath(f.Path); err != nil {
			return lie("the model has a file %.100q: %v", f.Path, err)
		}
		if !isHex(f.Hash, digits) || f.Size < 0 || f.Size > maxSize {
			return lie("the registry describes no hash or size of file %q", f.Path)
		}
		l.Files = append(l.Files, f)
	}
	slices.SortFunc(l.Files, func(a, b file) int { return strings.Compare(a.Path, b.Path) })
	names := map[string]bool{}
	for _, f := range l.Files {
		if names[f.Path] {
			return lie("the registry lists file %q twice", f.Path)
		}
		names[f.Path] = true
	}
	for _, f := range l.Files {
		for i, r := range f.Path {
			if r == '/' && names[f.Path[:i]] {
				return lie("the model has a file %q within the file %q", f.Path, f.Path[:i])
			}
		}
	}
	return l, nil
}
