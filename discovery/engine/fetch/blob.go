package fetch

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

type transfer struct {
	*repository
	f      *Fetcher
	source Source
	commit string
	file   file
	later  int64 // bytes of the files that are downloaded after this file
	report func(bytes int64)
}

func (r *repository) download(ctx context.Context, f *Fetcher, s Source, l listing, chosen []file,
	progress func(Progress)) error {
	p := Progress{Total: len(chosen)}
	var absent int64
	for _, c := range chosen {
		if p.Size += c.Size; !r.hasBlob(c) {
			absent += c.Size - r.partial(c)
		}
	}
	if absent > 0 {
		if err := f.room(absent); err != nil {
			return err
		}
	}
	for i, c := range chosen {
		before := p.Bytes
		p.File = c.Path
		var last time.Time
		t := &transfer{repository: r, f: f, source: s, commit: l.Commit, file: c, report: func(n int64) {
			if now := time.Now(); now.Sub(last) > 100*time.Millisecond {
				last, p.Bytes = now, before+n
				progress(p)
			}
		}}
		for _, other := range chosen[i+1:] {
			if !r.hasBlob(other) {
				t.later += other.Size - r.partial(other)
			}
		}
		if err := t.run(ctx); err != nil {
			return err
		}
		if err := r.link(l.Commit, c); err != nil {
			return disk(err)
		}
		p.Files++
		p.Bytes = before + c.Size
		progress(p)
	}
	return nil
}

// run downloads the blob, if the cache lacks it. Other processes that need the blob wait.
func (t *transfer) run(ctx context.Context) error {
	if t.hasBlob(t.file) {
		return nil
	}
	unlock, err := t.lock(ctx, t.file)
	if err != nil {
		return err
	}
	defer unlock()
	if t.hasBlob(t.file) { // another process has downloaded the blob
		return nil
	}
	for again := range 2 {
		err = t.f.attempts(ctx, func() (bool, error) { return t.part(ctx) })
		var mismatch *mismatchError
		if !errors.As(err, &mismatch) {
			return err
		}
		if again > 0 || !mismatch.resumed {
			break
		}
	}
	return wrong("registry", "use another registry or revision: the file is damaged there, or was changed",
		"file %s has another content than commit %s names", t.file.Path, t.commit)
}

// progressBytes is how much a failed attempt must transfer to count as progress. Attempts continue
// as long as they make progress.
const progressBytes = 1 << 20

type mismatchError struct{ resumed bool }

func (e *mismatchError) Error() string { return "the content has another hash" }

// part continues the download of a partial file. It renames a complete file with the right hash to
// the blob. moved reports whether the attempt made progress.
func (t *transfer) part(ctx context.Context) (moved bool, err error) {
	path := t.blob(t.file) + ".incomplete"
	out, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, disk(err)
	}
	defer func() { _ = out.Close() }()
	sum := t.file.hash()
	at, err := io.Copy(sum, io.LimitReader(out, t.file.Size+1))
	if err != nil {
		return false, disk(err)
	}
	if at > t.file.Size {
		at = 0
	}
	resumed := at > 0
	if at < t.file.Size || t.file.Size == 0 {
		n, restarted, err := t.receive(ctx, out, sum, at)
		if restarted {
			resumed = false
		}
		if err != nil {
			return n >= progressBytes, err
		}
	}
	if hex.EncodeToString(sum.Sum(nil)) != t.file.Hash {
		_ = os.Remove(path)
		return false, &mismatchError{resumed}
	}
	if err := out.Sync(); err != nil {
		return true, disk(err)
	}
	if err := os.Rename(path, t.blob(t.file)); err != nil {
		return true, disk(err)
	}
	return true, nil
}

// receive appends the rest of the content, from offset at, to the file. restarted means that the
// registry sent the content from the beginning.
func (t *transfer) receive(ctx context.Context, out *os.File, sum hash.Hash, at int64) (n int64, restarted bool,
	err error) {
	resp, err := t.f.get(ctx, t.source, t.address(), at)
	if err != nil {
		return 0, false, err
	}
	defer resp.close()
	if err := accepted(resp.StatusCode, t.source); err != nil {
		return 0, false, err
	}
	if at > 0 && resp.StatusCode == http.StatusOK { // the registry does not support ranges
		at, restarted = 0, true
		fresh(sum, t.file)
	}
	if at == 0 {
		fresh(sum, t.file)
	}
	if err := t.checkLength(resp.Response, at); err != nil {
		return 0, restarted, err
	}
	if err := out.Truncate(at); err != nil {
		return 0, restarted, disk(err)
	}
	if _, err := out.Seek(at, io.SeekStart); err != nil {
		return 0, restarted, disk(err)
	}
	w := &writer{t: t, out: out, sum: sum, at: at}
	n, err = io.CopyBuffer(w, io.LimitReader(onlyReader{resp}, t.file.Size-at+1), make([]byte, 1<<20))
	switch {
	case err != nil:
		return n, restarted, fmt.Errorf("file %s ends after %d of %d bytes: %w", t.file.Path, at+n, t.file.Size, err)
	case at+n > t.file.Size:
		_ = out.Truncate(0)
		return n, restarted, t.lies("more bytes")
	case at+n < t.file.Size:
		return n, restarted, fmt.Errorf("%w: file %s ends after %d of %d bytes", errUnreachable, t.file.Path, at+n,
			t.file.Size)
	}
	return n, restarted, nil
}

type onlyReader struct{ io.Reader }

func (t *transfer) checkLength(resp *http.Response, at int64) error {
	if resp.StatusCode == http.StatusPartialContent {
		want := fmt.Sprintf("bytes %d-%d/%d", at, t.file.Size-1, t.file.Size)
		if got := resp.Header.Get("Content-Range"); got != want {
			return t.lies("the range " + strconv.QuoteToASCII(got[:min(len(got), 64)]))
		}
	}
	if resp.ContentLength >= 0 && resp.ContentLength != t.file.Size-at {
		return t.lies(fmt.Sprintf("%d bytes", resp.ContentLength+at))
	}
	return nil
}

func (t *transfer) lies(what string) error {
	return wrong("registry", "use another registry or revision",
		"the registry sends %s of file %s, whose size it gives as %d", what, t.file.Path, t.file.Size)
}

func (t *transfer) address() string {
	parts := strings.Split(t.file.Path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return t.source.URL + "/" + t.source.Name + "/resolve/" + t.commit + "/" + strings.Join(parts, "/")
}

// checkEvery is the number of received bytes between two checks of the disk's free space.
const checkEvery = 64 << 20

type writer struct {
	t       *transfer
	out     *os.File
	sum     hash.Hash
	at      int64
	checked int64
}

func (w *writer) Write(p []byte) (int, error) {
	if w.at-w.checked >= checkEvery {
		w.checked = w.at
		if err := w.t.f.free(w.t.file.Size - w.at + w.t.later); err != nil {
			return 0, err
		}
	}
	n, err := w.out.Write(p)
	w.sum.Write(p[:n])
	w.at += int64(n)
	if err != nil {
		if noSpace(err) {
			return n, w.full(err)
		}
		return n, disk(err)
	}
	w.t.report(w.at)
	return n, nil
}

// full ends a download because the disk is full. It truncates the partial file by Config.Reserve
// bytes, because other programs need space. The next attempt continues from the remaining bytes.
func (w *writer) full(cause error) error {
	kept := max(0, w.at-w.t.f.cfg.Reserve)
	if err := w.out.Truncate(kept); err != nil {
		return disk(err)
	}
	if err := w.t.f.free(w.t.file.Size - kept + w.t.later); err != nil {
		return err
	}
	// The disk has room now: another program has freed space, or this user has a quota.
	return &Error{Problem: fmt.Sprintf("the disk with %s: %v", w.t.f.cfg.Folder, cause),
		Fix: "make room on the disk, or name another folder with HF_HUB_CACHE"}
}

func disk(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	fix := "make its folder writable"
	if noSpace(err) {
		fix = "make room on the disk, or name another folder with HF_HUB_CACHE"
	}
	return &Error{Problem: "the disk with the cache of models: " + err.Error(), Fix: fix}
}

func (f file) hash() hash.Hash {
	if len(f.Hash) == 2*sha256.Size {
		return sha256.New()
	}
	h := sha1.New()
	_, _ = fmt.Fprintf(h, "blob %d\x00", f.Size)
	return h
}

func fresh(sum hash.Hash, f file) {
	sum.Reset()
	if len(f.Hash) != 2*sha256.Size {
		_, _ = fmt.Fprintf(sum, "blob %d\x00", f.Size)
	}
}

// keep writes the listing and the ref of a commit, so that the model is usable offline.
func (r *repository) keep(l listing, revision string) error {
	raw, err := encode(l)
	if err != nil {
		return err
	}
	path := r.listingFile(l.Commit)
	if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, raw) {
		if err := replace(path, raw); err != nil {
			return err
		}
	}
	if isCommit(revision) {
		return nil
	}
	return replace(filepath.Join(r.dir, "refs", filepath.FromSlash(revision)), []byte(l.Commit))
}
