package tokenstore

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/external"
)

func serve(t *testing.T, s *Store) string {
	t.Helper()
	cfg := ServerConfig()
	server := external.NewServer(cfg)
	s.Paths(server)
	at := httptest.NewServer(server)
	t.Cleanup(at.Close)
	return at.URL
}

func TestTokenStore_WorkerFetchesWhatProcessorStored(t *testing.T) {
	client, err := NewClient(serve(t, New(Config{}, prometheus.NewRegistry())), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	key, err := client.Put(t.Context(), []byte("[1,15043,4294967295]"), "")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a request may be sent to a second worker
		if tokens, err := client.Get(t.Context(), key, ""); err != nil ||
			!slices.Equal(tokens, []uint32{1, 15043, 4294967295}) {
			t.Errorf("%v %v, want %v", tokens, err, []uint32{1, 15043, 4294967295})
		}
	}
	other, err := client.Put(t.Context(), []byte("[1,15043,4294967295]"), "")
	if err != nil || other == key || !ValidKey(key) || !ValidKey(other) {
		t.Errorf("keys %q and %q of one list: %v; want two valid keys that differ", key, other, err)
	}
	if _, err := client.Get(t.Context(), NewKey(), ""); err == nil ||
		!strings.Contains(err.Error(), "does not have the key") {
		t.Errorf(`an unknown key: got %v, want "does not have the key"`, err)
	}
	for _, key := range []string{"", "../version", "..", strings.Repeat("0", 31), strings.Repeat("0", 33),
		strings.Repeat("A", 32), strings.Repeat("0", 31) + "/"} {
		if _, err := client.Get(t.Context(), key, ""); err == nil || !strings.Contains(err.Error(), "is no key") {
			t.Errorf(`%q: got %v, want "is no key"`, key, err)
		}
	}
}

func TestTokenStore_InvalidListsAndKeysAreNotStored(t *testing.T) {
	s := New(Config{}, prometheus.NewRegistry())
	url := serve(t, s)
	key := NewKey()
	for _, c := range []struct {
		key, body string
		status    int
	}{
		{key, `[1,15043]`, 204}, {key, `[1,15043]`, 409}, {key, `[2]`, 409},
		{NewKey(), `{"a":1}`, 400}, {NewKey(), `null`, 400}, {NewKey(), `["a"]`, 400}, {NewKey(), `[-1]`, 400},
		{NewKey(), `[4294967296]`, 400}, {NewKey(), `[1`, 400}, {NewKey(), ``, 400}, {NewKey(), `[[1]]`, 400},
		{NewKey(), `[1.0]`, 400}, {NewKey(), `[1 2]`, 400}, {NewKey(), ` [1]`, 400},
		{NewKey(), `[ 1 , 4294967295 ]`, 204}, {NewKey(), `[]`, 204},
		{"guess", `[1]`, 400}, {strings.Repeat("g", 32), `[1]`, 400},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/tokens/"+c.key,
			strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != c.status {
			t.Errorf("PUT %s %s: %d, want %d", c.key, c.body, response.StatusCode, c.status)
		}
	}
	if got := string(s.Get(key)); got != "[1,15043]" {
		t.Errorf(`a second list replaced the first: %s, want "[1,15043]"`, got)
	}
	for _, path := range []string{"/", "/tokens", "/tokens/"} {
		response, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s: %d, want %d", path, response.StatusCode, http.StatusNotFound)
		}
	}
}

func TestTokenStore_LeastRecentlyUsedIsEvicted(t *testing.T) {
	item := make([]byte, 1000)
	s := New(Config{Bytes: 3 * (1000 + entryBytes)}, prometheus.NewRegistry())
	for _, key := range []string{"a", "b", "c"} {
		s.Put(key, item)
	}
	s.Get("a")
	s.Put("d", item)
	for key, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
		if got := s.Get(key) != nil; got != want {
			t.Errorf("%s: found %v, want %v", key, got, want)
		}
	}
	for i := range 1000 {
		s.Put(fmt.Sprint(i), item)
	}
	if s.size() > s.cfg.Bytes || len(s.byKey) != 3 || s.used.Len() != 3 || s.stores.Len() != 3 {
		t.Errorf("%d bytes, %d lists; want at most %d bytes and 3 lists", s.size(), len(s.byKey), s.cfg.Bytes)
	}
}

func TestTokenStore_ListsExpireUsedOrNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{TTL: time.Minute}, prometheus.NewRegistry())
		go func() { _ = s.Run(t.Context()) }()
		s.Put("a", []byte("[1]"))
		time.Sleep(40 * time.Second)
		s.Put("b", []byte("[2]"))
		if s.Get("a") == nil {
			t.Error("it expired early")
		}
		time.Sleep(30 * time.Second)
		if s.Get("a") != nil || s.Get("b") == nil {
			t.Error("a list that was used outlived its time, or a newer one did not live as long")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.size() != 0 {
			t.Errorf("an idle store keeps %d bytes, want 0", s.size())
		}
	})
}

// FuzzTokenStore_StoresWhatWorkersRead compares the check of a list with its decoding.
func FuzzTokenStore_StoresWhatWorkersRead(f *testing.F) {
	for _, seed := range []string{`[1,15043]`, `[]`, `[4294967296]`, `[-1]`, `[1e3]`, `[[1]]`, `null`, `[1,]`, `[01]`,
		"[1,\n2]", `["1"]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var tokens []*uint32
		err := json.Unmarshal(text, &tokens)
		readable := err == nil && tokens != nil && !slices.Contains(tokens, nil) && text[0] == '['
		if got := validList(text); got != readable {
			t.Errorf("%q: %v, and decoding: %v, want %v", text, got, err, readable)
		}
	})
}
