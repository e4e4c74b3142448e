package external

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestRelease_PeerOfAnotherMinorReleaseIsNotUsed(t *testing.T) {
	for _, c := range []struct {
		mine, theirs string
		used         bool
	}{
		{"v0.1.0", "v0.1.7", true}, {"v0.1.0", "v0.2.0", false}, {"v1.2.0", "v0.2.0", false},
		{"v0.1.0", "v0.10.0", false},
		{"(devel)", "v0.2.0", true}, {"v0.1.0", "", true}, {"v0.1.0", "nginx", true},
		{"v0.0.0-20260102030405-abcdefabcdef", "v0.0.0-20260202030405-abcdefabcdee+dirty", true},
	} {
		server := httptest.NewServer(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(VersionHeader, c.theirs) }))
		peer, err := NewPeer(PeerConfig{Name: "router", URL: server.URL, Release: c.mine})
		if err != nil {
			t.Fatal(err)
		}
		_, err = peer.Do(t.Context(), Call{Method: http.MethodPost, Path: "/route"})
		if (err == nil) != c.used {
			t.Errorf("%s calls %s: got %v, want the answer used: %t", c.mine, c.theirs, err, c.used)
		}
		if err != nil &&
			(!strings.Contains(err.Error(), c.mine) || !strings.Contains(err.Error(), c.theirs) ||
				!strings.Contains(err.Error(), "router "+server.URL)) {
			t.Errorf("got %v, want an error that names both releases and the peer", err)
		}
		server.Close()
	}
}

func TestPeer_FailingPeerIsLeftOut(t *testing.T) {
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()
	peer, err := NewPeer(PeerConfig{Name: "token store", URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err = peer.Do(t.Context(), Call{Method: http.MethodGet, Path: "/"}); err == nil {
			t.Fatal("status 500 is no error")
		}
	}
	if n := calls.Load(); n != failures {
		t.Errorf("%d calls, want %d", n, failures)
	}
	if !strings.Contains(err.Error(), "is not called") {
		t.Error(err)
	}
}

func TestPeer_SlowOrEndlessAnswerIsBounded(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "/long":
			fmt.Fprint(w, strings.Repeat("x", 1000))
		case "/elsewhere":
			http.Redirect(w, r, "/long", http.StatusFound)
		}
	}))
	defer server.Close()
	defer close(release)
	peer, err := NewPeer(PeerConfig{Name: "router", URL: server.URL + "/", Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/slow": "no answer in 50ms", "/long": "more than 999 bytes"} {
		if _, err := peer.Do(t.Context(), Call{Method: http.MethodGet, Path: path, Limit: 999}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
	if r, err := peer.Do(t.Context(), Call{Method: http.MethodGet, Path: "/elsewhere", Limit: 999}); err != nil ||
		r.Status != http.StatusFound {
		t.Errorf("a redirect was followed: %+v %v, want Status %v", r, err, http.StatusFound)
	}
}

func TestPeer_InvalidURLNamesTheForm(t *testing.T) {
	for _, url := range []string{"", "router:8080", "ftp://router", "http://", "http://user:pass@router",
		"http://router?a=b"} {
		if _, err := NewPeer(PeerConfig{Name: "router", URL: url}); err == nil ||
			!strings.Contains(err.Error(), "http://HOST:PORT") {
			t.Errorf("%q: got %v, want an error with http://HOST:PORT", url, err)
		}
	}
}

func TestServer_BodiesHaveLimits(t *testing.T) {
	s := NewServer(ServerConfig{Component: "router", Body: 100, Bodies: 150, Release: "v1.2.3"})
	inside, leave := make(chan struct{}), make(chan struct{})
	s.Handle("POST /hold", func(http.ResponseWriter, *http.Request, []byte) { inside <- struct{}{}; <-leave })
	s.Handle("POST /", func(w http.ResponseWriter, _ *http.Request, body []byte) { fmt.Fprint(w, len(body)) })
	ask := func(path string, size int) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(strings.Repeat("x", size)))
		r.RemoteAddr = path + ":1" // each path stands for another client
		s.ServeHTTP(w, r)
		return w
	}
	if w := ask("/", 101); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("101 bytes: %d, want %d", w.Code, http.StatusRequestEntityTooLarge)
	}
	unknown := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x"))
	unknown.ContentLength = -1
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, unknown); w.Code != http.StatusLengthRequired {
		t.Errorf("a body of unknown length: %d, want %d", w.Code, http.StatusLengthRequired)
	}
	go ask("/hold", 100)
	<-inside
	if w := ask("/", 51); w.Code != http.StatusServiceUnavailable || w.Header().Get("retry-after") == "" {
		t.Errorf("while 100 of 150 bytes are held: got %d for 51, want 503 with retry-after", w.Code)
	}
	if w := ask("/", 50); w.Body.String() != "50" || w.Header().Get(VersionHeader) != "v1.2.3" {
		t.Errorf("for 50 bytes: got %d %v, want the answer, with the version", w.Code, w.Header())
	}
	close(leave)
	w = httptest.NewRecorder()
	if s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/version", nil)); !strings.Contains(w.Body.String(),
		`{"component":"router","version":"v1.2.3"}`) {
		t.Errorf("/version: got %s, want component router and version v1.2.3", w.Body)
	}
}

func from(address string, body io.Reader, size int64) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", body)
	r.RemoteAddr, r.ContentLength = address+":1234", size
	return r
}

func TestServer_SlowOrHugeClientLeavesRoomForOthers(t *testing.T) {
	const body = 4 * bodyPart
	s := NewServer(ServerConfig{Component: "router", Body: body, Bodies: 2 * body})
	inside, leave := make(chan struct{}), make(chan struct{})
	var waiting atomic.Bool
	s.Handle("POST /", func(w http.ResponseWriter, _ *http.Request, body []byte) {
		if waiting.Load() {
			inside <- struct{}{}
			<-leave
		}
		fmt.Fprint(w, len(body))
	})
	ask := func(address string) int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, from(address, bytes.NewReader(make([]byte, body)), body))
		return w.Code
	}
	var all sync.WaitGroup
	defer all.Wait()
	for range 100 { // together they announce 200 times the available room
		slow, rest := io.Pipe()
		all.Go(func() { s.ServeHTTP(httptest.NewRecorder(), from("192.0.2.1", slow, body)) })
		defer func() { _ = rest.Close() }()
	}
	poll.Until(t, "the slow bodies have their first part, as far as there is room", func() bool {
		s.bodies.mu.Lock()
		defer s.bodies.mu.Unlock()
		return s.bodies.byAddress["192.0.2.1"] == body
	})
	if code := ask("192.0.2.2"); code != http.StatusOK {
		t.Errorf("another client beside slow ones: %d, want %d", code, http.StatusOK)
	}
	waiting.Store(true)
	all.Go(func() { ask("192.0.2.3") })
	<-inside
	if code := ask("192.0.2.3"); code != http.StatusServiceUnavailable {
		t.Errorf("a second body from one address, half of the room: %d, want %d", code, http.StatusServiceUnavailable)
	}
	close(leave)
}
