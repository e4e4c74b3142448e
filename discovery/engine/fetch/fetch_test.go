package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/engine/fetch"
	"github.com/penstock-project/penstock/discovery/engine/fetch/registrytest"
)

const name = "org/model"

func random(n int) []byte {
	out, r := make([]byte, n), rand.New(rand.NewPCG(1, uint64(n)))
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

func registry(t testing.TB, files ...registrytest.File) *registrytest.Registry {
	t.Helper()
	r := registrytest.New(name, files...)
	t.Cleanup(r.Close)
	return r
}

func config(t testing.TB) fetch.Config {
	t.Helper()
	return fetch.Config{Folder: filepath.Join(t.TempDir(), "hub"), Reserve: 1, Backoff: time.Millisecond,
		Stall: time.Minute}
}

func source(r *registrytest.Registry) fetch.Source { return fetch.Source{URL: r.URL, Name: name} }

func same(t testing.TB, path string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes %v, want %d others", path, len(got), err, len(want))
	}
}

func blobRequests(r *registrytest.Registry) (n int) {
	for _, q := range r.Requests() {
		if strings.Contains(q.Path, "/resolve/") || strings.HasPrefix(q.Path, "/lfs/") {
			n++
		}
	}
	return n
}

func TestFetch_HasHuggingFacesLayoutAndNothingIsFetchedTwice(t *testing.T) {
	weights, small := random(3<<20), []byte(`{"model_type": "qwen2"}`)
	r := registry(t, registrytest.File{Name: "model.safetensors", Content: weights, LFS: true},
		registrytest.File{Name: "sub/config.json", Content: small},
		registrytest.File{Name: "pytorch_model.bin", LFS: true})
	cfg := config(t)
	f := fetch.New(cfg)
	var last fetch.Progress
	m, err := f.Fetch(t.Context(), source(r), func(p fetch.Progress) { last = p })
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cfg.Folder, "models--org--model")
	if want := filepath.Join(dir, "snapshots", registrytest.Commit); m.Path != want || m.Commit != registrytest.Commit {
		t.Errorf("the model is %+v, want %s", m, want)
	}
	same(t, filepath.Join(m.Path, "model.safetensors"), weights)
	same(t, filepath.Join(m.Path, "sub", "config.json"), small)
	same(t, filepath.Join(dir, "refs", "main"), []byte(registrytest.Commit))
	if link, err := os.Readlink(filepath.Join(m.Path, "sub", "config.json")); err != nil ||
		!strings.HasPrefix(link, "../../../blobs/") {
		t.Errorf("the file is %s %v, want a relative link to its blob", link, err)
	}
	if _, err := os.Lstat(filepath.Join(m.Path, "pytorch_model.bin")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("weights in another format are there, too: %v", err)
	}
	if last.Files != 2 || last.Bytes != last.Size || last.Size != int64(len(weights)+len(small)) {
		t.Errorf("the last progress is %+v", last)
	}
	before := blobRequests(r)
	if _, err := f.Fetch(t.Context(), source(r), nil); err != nil || blobRequests(r) != before {
		t.Errorf("a second fetch: %v, %d requests for contents, want %d", err, blobRequests(r), before)
	}
	pinned := source(r)
	pinned.Revision = registrytest.Commit
	all := len(r.Requests())
	if _, err := f.Fetch(t.Context(), pinned, nil); err != nil || len(r.Requests()) != all {
		t.Errorf("a pinned commit that is there: %v, and %d requests, want none", err, len(r.Requests())-all)
	}
	r.Status(503)
	if m, err := f.Fetch(t.Context(), source(r), nil); err != nil || !m.Offline {
		t.Errorf("without the registry: %+v %v, want the model that is there", m, err)
	}
	cached, err := f.Cached()
	if err != nil || len(cached) != 1 || cached[0].Name != name || cached[0].Refs["main"] != registrytest.Commit {
		t.Errorf("the cache lists %+v %v", cached, err)
	}
	if n, err := f.Remove(name); err != nil || n != last.Size {
		t.Errorf("removed %d bytes %v, want %d", n, err, last.Size)
	}
	if _, err := f.Fetch(t.Context(), source(r), nil); err == nil {
		t.Error("a removed model is there without its registry")
	}
}

// Without a registry, Fetch uses a model that the Python package huggingface_hub has downloaded,
// although that package writes no listing.
func TestFetch_OfflineUsesWhatOtherProgramsHaveDownloaded(t *testing.T) {
	r := registry(t)
	r.Status(500)
	cfg := config(t)
	dir := filepath.Join(cfg.Folder, "models--org--model")
	for path, text := range map[string]string{"refs/main": registrytest.Commit, "blobs/b": "weights"} {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	snapshot := filepath.Join(dir, "snapshots", registrytest.Commit)
	if err := errors.Join(os.MkdirAll(snapshot, 0o755),
		os.Symlink("../../blobs/b", filepath.Join(snapshot, "model.gguf"))); err != nil {
		t.Fatal(err)
	}
	if m, err := fetch.New(cfg).Fetch(t.Context(), source(r), nil); err != nil ||
		m.Path != filepath.Join(snapshot, "model.gguf") || !m.Offline {
		t.Errorf("got %+v %v", m, err)
	}
}

func TestFetch_ResumesWhereItEnded(t *testing.T) {
	content := random(5 << 20)
	for _, lfs := range []bool{true, false} {
		r := registry(t, registrytest.File{Name: "a.safetensors", Content: content, LFS: lfs, Cut: 2 << 20})
		m, err := fetch.New(config(t)).Fetch(t.Context(), source(r), nil)
		if err != nil {
			t.Fatal(err)
		}
		same(t, filepath.Join(m.Path, "a.safetensors"), content)
		var ranges []string
		for _, q := range r.Requests() {
			if q.Range != "" {
				ranges = append(ranges, q.Range)
			}
		}
		if len(ranges) < 2 || !slices.Contains(ranges, "bytes=2097152-") {
			t.Errorf("LFS %v: the requests continue at %v", lfs, ranges)
		}
	}
}

func TestFetch_APartOfAnotherContentIsDroppedOnce(t *testing.T) {
	content := random(2 << 20)
	for _, ranges := range []bool{true, false} {
		r := registry(t, registrytest.File{Name: "a.gguf", Content: content, LFS: true, Cut: 1 << 20})
		if !ranges {
			r.WithoutRanges()
		}
		cfg := config(t)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := fetch.New(cfg).Fetch(ctx, source(r), func(p fetch.Progress) {
			if p.Bytes > 0 {
				cancel()
			}
		})
		if err == nil {
			t.Fatal("a canceled fetch succeeds")
		}
		parts, _ := filepath.Glob(filepath.Join(cfg.Folder, "models--org--model", "blobs", "*.incomplete"))
		if len(parts) != 1 {
			t.Fatal("the part of a canceled fetch is gone")
		}
		if err := os.WriteFile(parts[0], make([]byte, 1<<20), 0o644); err != nil {
			t.Fatal(err)
		}
		r.Put(registrytest.File{Name: "a.gguf", Content: content, LFS: true})
		m, err := fetch.New(cfg).Fetch(t.Context(), source(r), nil)
		if err != nil {
			t.Fatal(err)
		}
		same(t, m.Path, content)
	}
}

func TestFetch_ACredentialStaysAtTheRegistry(t *testing.T) {
	r := registry(t, registrytest.File{Name: "a.gguf", Content: random(100), LFS: true},
		registrytest.File{Name: "b.gguf", Content: random(200)})
	r.Require("hf_secret")
	f := fetch.New(config(t))
	s := source(r)
	s.File = "a.gguf"
	if _, err := f.Fetch(t.Context(), s, nil); err == nil || !strings.Contains(err.Error(), "requires a credential") {
		t.Errorf("without a credential: %v", err)
	}
	s.Token = "hf_wrong"
	if _, err := f.Fetch(t.Context(), s, nil); err == nil || !strings.Contains(err.Error(), "denies the credential") ||
		strings.Contains(err.Error(), "hf_wrong") {
		t.Errorf("with a wrong credential: %v", err)
	}
	s.Token = "hf_secret"
	if _, err := f.Fetch(t.Context(), s, nil); err != nil {
		t.Fatal(err)
	}
	elsewhere := 0
	for _, q := range r.Requests() {
		if strings.HasPrefix(q.Path, "/lfs/") {
			elsewhere++
			if q.Authorization != "" {
				t.Errorf("the other host gets %s", q.Authorization)
			}
		}
	}
	if elsewhere == 0 {
		t.Error("no request has reached the other host")
	}
	s.URL = "http://registry.example"
	if _, err := f.Fetch(t.Context(), s, nil); err == nil || !strings.Contains(err.Error(), "without encryption") {
		t.Errorf("a credential over plain HTTP: %v", err)
	}
}

func TestFetch_AFaultNamesItsFieldAndLeavesNoBlob(t *testing.T) {
	content := random(3000)
	good := registrytest.File{Name: "a.gguf", Content: content, LFS: true}
	wrong, short, long, small := good, good, good, good
	wrong.Sent = append(bytes.Clone(content[:2999]), content[2999]+1)
	short.Sent = content[:2000]
	long.Sent = append(bytes.Clone(content), 1)
	small.Size = 4000
	git := wrong
	git.LFS = false
	dripping := good
	dripping.Cut = 1
	for text, file := range map[string]registrytest.File{
		"has another content than commit": wrong, "sends 2000 bytes of file a.gguf": short,
		"sends 3001 bytes of file a.gguf": long, "whose size it gives as 4000": small,
		"nothing arrived": dripping,
	} {
		r := registry(t, file)
		cfg := config(t)
		if file.Cut == 1 {
			r.Hang()
			cfg.Stall = 20 * time.Millisecond
		}
		fails(t, cfg, source(r), "registry", text)
	}
	fails(t, config(t), source(registry(t, git)), "registry", "has another content than commit")
	cut := good
	cut.Cut = 1
	fails(t, config(t), source(registry(t, cut)), "registry", "a.gguf")
	r := registry(t, good)
	s := source(r)
	s.Revision = "v9"
	fails(t, config(t), s, "name", "has no model org/model with revision v9")
	s = source(r)
	s.File = "Q4_K_M"
	fails(t, config(t), s, "file", `has no file "Q4_K_M": write one of a.gguf`)
	limited := config(t)
	limited.Limit = 2999
	fails(t, limited, source(r), "", "the model needs 2.9 KiB")
	full := config(t)
	full.Reserve = 1 << 60
	fails(t, full, source(r), "", "the download needs 2.9 KiB")
	r.Status(502)
	fails(t, config(t), source(r), "registry", "answers 502")
	r.Status(0)
	r.List(bytes.Repeat([]byte("[1,"), 6<<20))
	fails(t, config(t), source(r), "registry", "more than 16777216 bytes")
}

func fails(t *testing.T, cfg fetch.Config, s fetch.Source, field, text string) {
	t.Helper()
	_, err := fetch.New(cfg).Fetch(t.Context(), s, nil)
	var e *fetch.Error
	if !errors.As(err, &e) || e.Field != field || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v (%+v), want field %q and %q", err, e, field, text)
	}
	blobs, _ := filepath.Glob(filepath.Join(cfg.Folder, "*", "blobs", "*"))
	for _, blob := range blobs {
		if !strings.HasSuffix(blob, ".incomplete") {
			t.Errorf("%s: there is a blob", text)
		}
	}
	if refs, _ := filepath.Glob(filepath.Join(cfg.Folder, "*", "refs", "*")); len(refs) > 0 {
		t.Errorf("%s: there is a revision", text)
	}
}

func TestFetch_OneOfSeveralDownloadsABlob(t *testing.T) {
	content := random(4 << 20)
	r := registry(t, registrytest.File{Name: "a.gguf", Content: content, LFS: true})
	cfg := config(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { // like a process of its own: locks belong to open files
			if m, err := fetch.New(cfg).Fetch(t.Context(), source(r), nil); err != nil {
				t.Error(err)
			} else {
				same(t, m.Path, content)
			}
		})
	}
	all.Wait()
	if n := blobRequests(r); n != 2 { // one at the registry, one at the host of its redirect
		t.Errorf("%d requests for the blob, want 2", n)
	}
}

func TestFetch_AnInvalidNameAsksNoRegistry(t *testing.T) {
	r := registry(t)
	for _, change := range []func(*fetch.Source){
		func(s *fetch.Source) { s.Name = "../../etc" }, func(s *fetch.Source) { s.Revision = "../x" }} {
		s := source(r)
		change(&s)
		_, err := fetch.New(config(t)).Fetch(t.Context(), s, nil)
		if e, ok := errors.AsType[*fetch.Error](err); !ok || !e.Unasked {
			t.Errorf("%+v: got %v, want an error before a request", s, err)
		}
	}
	if got := r.Requests(); len(got) > 0 {
		t.Errorf("requests %v, want none", got)
	}
	_, err := fetch.New(config(t)).Fetch(t.Context(), fetch.Source{URL: r.URL, Name: "org/absent"}, nil)
	if e, ok := errors.AsType[*fetch.Error](err); !ok || e.Unasked {
		t.Errorf("an absent model: got %v, want an error of the registry", err)
	}
}
