package attacks

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/penstock-project/penstock/conformance/promises/process"
	"github.com/penstock-project/penstock/conformance/promises/process/processtest"
)

func externalProgram(t *testing.T, args ...string) (s *site, p *process.Process, url string) {
	t.Helper()
	s = &site{Rig: processtest.Rig{TB: t}, dir: t.TempDir()}
	binary, err := process.Build(t.Context(), s.dir, "penstock-external")
	if err != nil {
		t.Fatal(err)
	}
	address := local(s.Port())
	p, err = process.Start(args[0], filepath.Join(s.dir, "external.log"), binary, nil,
		append(args, "--listen="+address)...)
	if err != nil {
		t.Fatal(err)
	}
	s.ends(p)
	url = "http://" + address
	s.Eventually("it serves", func() error { return p.Answers(url + "/healthz") })
	return s, p, url
}

func exchange(method, url string, body []byte) (int, []byte) {
	request, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, text
}

func randomKey() string {
	var bits [16]byte
	_, _ = rand.Read(bits[:])
	return hex.EncodeToString(bits[:])
}

func stall(t *testing.T, url, request string, uploads int) {
	t.Helper()
	for range uploads {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTokenStore_HostilePodReadsNothingAndFillsNothing(t *testing.T) {
	s, p, url := externalProgram(t, "tokens", "--max-bytes=16Mi")
	secret := randomKey()
	if status, text := exchange(http.MethodPut, url+"/tokens/"+secret,
		[]byte("[1,15043]")); status != http.StatusNoContent {
		t.Fatalf("%d %s, want %d", status, text, http.StatusNoContent)
	}
	for _, path := range []string{"/", "/tokens", "/tokens/", "/tokens/*", "/tokens/../tokens/", "/debug/pprof/",
		"/metrics", "/tokens/" + secret[:31], "/tokens/" + strings.ToUpper(secret) + "0"} {
		if status, text := exchange(http.MethodGet, url+path, nil); bytes.Contains(text, []byte("15043")) ||
			bytes.Contains(text, []byte(secret)) || status == http.StatusOK && path != "/metrics" {
			t.Errorf("GET %s: got %d %.200s, want no 200, tokens or secret", path, status, text)
		}
	}
	if status, _ := exchange(http.MethodPut, url+"/tokens/"+secret, []byte("[2]")); status != http.StatusConflict {
		t.Errorf("a prompt was replaced: %d, want %d", status, http.StatusConflict)
	}
	if _, text := exchange(http.MethodGet, url+"/tokens/"+secret, nil); string(text) != "[1,15043]" {
		t.Errorf("the stored tokens: got %s, want [1,15043]", text)
	}

	before, peak := s.rss(p), s.peak(p)
	large := []byte("[" + strings.Repeat("1,", 4<<20-2) + "1]")
	var senders sync.WaitGroup
	for range 16 {
		senders.Go(func() {
			for range 20 {
				exchange(http.MethodPut, url+"/tokens/"+randomKey(), large)
			}
		})
	}
	senders.Wait()
	for name, body := range map[string]string{"deep": strings.Repeat("[", 4<<20),
		"digits": "[" + strings.Repeat("9", 4<<20) + "]", "too large": strings.Repeat(" ", 9<<20)} {
		if status, _ := exchange(http.MethodPut, url+"/tokens/"+randomKey(),
			[]byte(body)); status != http.StatusBadRequest && status != http.StatusRequestEntityTooLarge &&
			status != 0 {
			t.Errorf("%s: got %d, want 400, 413 or no answer", name, status)
		}
	}
	stall(t, url, fmt.Sprintf("PUT /tokens/%s HTTP/1.1\r\nhost: a\r\ncontent-length: 8000000\r\n\r\n", randomKey()),
		100)
	s.Eventually("small lists are stored again", func() error {
		key := randomKey()
		if status, text := exchange(http.MethodPut, url+"/tokens/"+key, []byte("[7]")); status != http.StatusNoContent {
			return fmt.Errorf("PUT: got %d %s, want 204", status, text)
		}
		if _, text := exchange(http.MethodGet, url+"/tokens/"+key, nil); string(text) != "[7]" {
			return fmt.Errorf("GET: got %s, want [7]", text)
		}
		return nil
	})
	if most := peak(); most > before+160 {
		t.Errorf("the token store had %.0f MiB before, and %.0f MiB at the peak, want at most %.0f",
			before, most, before+160)
	} else {
		t.Logf("%.0f MiB before, %.0f MiB at the peak", before, most)
	}
}

func TestProcess_HostilePromptsHarmThemselvesAlone(t *testing.T) {
	s, p, url := externalProgram(t, "processor")
	ask := func(body string) int {
		status, _ := exchange(http.MethodPost, url+"/process", []byte(body))
		return status
	}
	text := func(content string) string {
		return `{"request_body":{"messages":[{"role":"user","content":"` + content + `"}]},"headers":{}}`
	}
	before, peak := s.rss(p), s.peak(p)
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"one letter": {text(strings.Repeat("A", 1<<20)), 200},
		"spaces":     {text(strings.Repeat(" ", 1<<20)), 200},
		"marks":      {text(strings.Repeat("\u0301a", 100<<10)), 200},
		"escapes":    {text(strings.Repeat(`\u0041`, 200<<10)), 200},
		"too long":   {text(strings.Repeat("A", 5<<20)), 413},
		"too many":   {text(strings.Repeat("\u2764", 1<<20)), 413},
		"deep":       {`{"request_body":{"messages":` + strings.Repeat("[", 8<<20) + `}}`, 400},
		"many messages": {
			`{"request_body":{"messages":[` + strings.Repeat(`{"content":"a"},`, 100<<10) + `{"content":"a"}]}}`, 200,
		},
		"32 MiB": {text(strings.Repeat("A", 32<<20)), 413},
		"34 MiB": {text(strings.Repeat("A", 34<<20)), 413},
	} {
		// 0 means that the connection closed before the whole body was sent
		if status := ask(c.body); status != c.status && !(c.status == 413 && status == 0) {
			t.Errorf("%s: %d, want %d", name, status, c.status)
		}
	}
	var senders sync.WaitGroup
	for range 16 {
		senders.Go(func() {
			for range 2 {
				ask(text(strings.Repeat("The quick brown fox. ", 50<<10)))
			}
		})
	}
	senders.Wait()
	stall(t, url, "POST /process HTTP/1.1\r\nhost: a\r\ncontent-length: 30000000\r\n\r\n", 100)
	s.Eventually("a small prompt is tokenized", func() error {
		if status := ask(text("Hello")); status != http.StatusOK {
			return fmt.Errorf("got %d, want 200", status)
		}
		return nil
	})
	if most := peak(); most > 900 { // the chart's limit is 1 GiB
		t.Errorf("the processor had %.0f MiB before, and %.0f MiB at the peak, want at most 900", before, most)
	} else {
		t.Logf("%.0f MiB before, %.0f MiB at the peak", before, most)
	}
}
