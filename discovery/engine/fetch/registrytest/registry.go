package registrytest

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Commit is the commit to which the revision main resolves.
const Commit = "0123456789abcdef0123456789abcdef01234567"

// File is a file of a model.
type File struct {
	Name    string
	Content []byte
	LFS     bool
	// Sent is sent instead of Content; nil: Content is sent.
	Sent []byte
	// Cut is the number of bytes after which each response breaks off; 0: responses are complete.
	Cut int64
	// Size is the size in the list of files; 0: the size of Content.
	Size int64
}

// Request is a received request.
type Request struct {
	Host, Path, Authorization, Range string
}

// Registry serves one model.
type Registry struct {
	URL  string
	Name string // ORG/NAME

	mu       sync.Mutex
	files    map[string]File
	token    string // "": the model is public
	listing  []byte
	hang     chan struct{}
	noRange  bool
	status   int
	requests []Request

	api, store *httptest.Server
}

// New makes a Registry that serves a model until Close.
func New(name string, files ...File) *Registry {
	r := &Registry{Name: name, files: map[string]File{}}
	for _, f := range files {
		r.files[f.Name] = f
	}
	r.api = httptest.NewServer(http.HandlerFunc(r.serve))
	r.store = httptest.NewServer(http.HandlerFunc(r.serveLFS))
	r.URL = r.api.URL
	return r
}

// Close ends the servers.
func (r *Registry) Close() {
	r.Resume()
	r.api.CloseClientConnections()
	r.store.CloseClientConnections()
	r.api.Close()
	r.store.Close()
}

// Require makes the registry deny requests without this token.
func (r *Registry) Require(token string) { r.set(func() { r.token = token }) }

// Put adds or replaces a file.
func (r *Registry) Put(f File) { r.set(func() { r.files[f.Name] = f }) }

// List makes the registry send this text instead of the list of files.
func (r *Registry) List(raw []byte) { r.set(func() { r.listing = raw }) }

// Status makes the registry respond to all requests with this status; 0: normal responses.
func (r *Registry) Status(code int) { r.set(func() { r.status = code }) }

// WithoutRanges makes the registry ignore the Range header and send whole files.
func (r *Registry) WithoutRanges() { r.set(func() { r.noRange = true }) }

// Hang makes the registry stop in the middle of responses, until Resume.
func (r *Registry) Hang() { r.set(func() { r.hang = make(chan struct{}) }) }

// Resume ends Hang.
func (r *Registry) Resume() {
	r.set(func() {
		if r.hang != nil {
			close(r.hang)
			r.hang = nil
		}
	})
}

// Requests returns the requests that the registry has received.
func (r *Registry) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Request(nil), r.requests...)
}

func (r *Registry) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func (r *Registry) record(req *http.Request) (status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, Request{Host: req.Host, Path: req.URL.Path,
		Authorization: req.Header.Get("Authorization"), Range: req.Header.Get("Range")})
	return r.status
}

func (r *Registry) serve(w http.ResponseWriter, req *http.Request) {
	if status := r.record(req); status != 0 {
		w.WriteHeader(status)
		return
	}
	r.mu.Lock()
	token, listing := r.token, r.listing
	r.mu.Unlock()
	if token != "" && req.Header.Get("Authorization") != "Bearer "+token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if rest, ok := strings.CutPrefix(req.URL.Path, "/api/models/"+r.Name+"/revision/"); ok {
		if rest != "main" && rest != Commit {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if listing == nil {
			listing = r.describe()
		}
		_, _ = w.Write(listing)
		return
	}
	name, ok := strings.CutPrefix(req.URL.Path, "/"+r.Name+"/resolve/"+Commit+"/")
	f, known := r.file(name)
	switch {
	case !ok || !known:
		w.WriteHeader(http.StatusNotFound)
	case f.LFS:
		http.Redirect(w, req, r.store.URL+"/lfs/"+url.PathEscape(name)+"?Signature=secret", http.StatusFound)
	default:
		r.send(w, req, f)
	}
}

func (r *Registry) serveLFS(w http.ResponseWriter, req *http.Request) {
	r.record(req)
	f, ok := r.file(strings.TrimPrefix(req.URL.Path, "/lfs/"))
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	r.send(w, req, f)
}

func (r *Registry) file(name string) (File, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, ok := r.files[name]
	return f, ok
}

func (r *Registry) send(w http.ResponseWriter, req *http.Request, f File) {
	r.mu.Lock()
	hang, noRange := r.hang, r.noRange
	r.mu.Unlock()
	content := f.Content
	if f.Sent != nil {
		content = f.Sent
	}
	if noRange {
		req.Header.Del("Range")
	}
	if f.Cut > 0 || hang != nil {
		w = &cutting{ResponseWriter: w, left: max(f.Cut, 1), hang: hang}
	}
	http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(content))
}

// cutting breaks off a response after left bytes, or stops there while hang is open.
type cutting struct {
	http.ResponseWriter
	left int64
	hang chan struct{}
}

func (c *cutting) Write(p []byte) (int, error) {
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.ResponseWriter.Write(p)
	c.left -= int64(n)
	if err == nil && c.left == 0 {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		if c.hang != nil {
			<-c.hang
		}
		panic(http.ErrAbortHandler)
	}
	return n, err
}

func (r *Registry) describe() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	var siblings []map[string]any
	for name, f := range r.files {
		size := int64(len(f.Content))
		if f.Size != 0 {
			size = f.Size
		}
		blob := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(f.Content)), f.Content...))
		s := map[string]any{"rfilename": name, "size": size, "blobId": hex.EncodeToString(blob[:])}
		if f.LFS {
			sum := sha256.Sum256(f.Content)
			s["lfs"] = map[string]any{"sha256": hex.EncodeToString(sum[:]), "size": size, "pointerSize": 134}
		}
		siblings = append(siblings, s)
	}
	raw, _ := json.Marshal(map[string]any{"id": r.Name, "sha": Commit, "siblings": siblings})
	return raw
}
