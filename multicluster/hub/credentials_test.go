package hub

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/xds/authority"
)

// replace replaces a file by a FIFO or by a file that is too large.
func replace(t *testing.T, path, by string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	switch by {
	case "fifo":
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	case "huge":
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 1<<30); err != nil {
			t.Fatal(err)
		}
	}
}

// kubeClient makes a client from a kubeconfig whose user has these fields.
func kubeClient(t *testing.T, dir, server, user string) *http.Client {
	t.Helper()
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "a",
"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
"clusters": [{"name": "a", "cluster": {"server": %q, "certificate-authority": "ca"}}], "users": [{"name": "a", "user": %s}]}`, server, user)
	path := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	disk := &filesystem.Disk{}
	_, loaded, err := Kubeconfig(disk, path)
	if err != nil {
		t.Fatal(err)
	}
	cfg, _, err := ClientConfig(disk, loaded, loaded.CurrentContext)
	if err != nil {
		t.Fatal(err)
	}
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// get sends a request and returns the status of the response. It fails the test if the request
// takes as long as ten timeouts of a file read.
func get(t *testing.T, c *http.Client, url string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*filesystem.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan int, 1)
	go func() {
		resp, err := c.Do(req)
		if err != nil {
			t.Error(err)
			done <- 0
			return
		}
		_ = resp.Body.Close()
		done <- resp.StatusCode
	}()
	select {
	case status := <-done:
		return status
	case <-ctx.Done(): // an unbounded read ignores the context
		t.Fatal("the request does not end")
		return 0
	}
}

func writeCA(t *testing.T, dir string, s *httptest.Server) {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(dir, "ca"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
}

// While a token's file cannot be read, the previous token stays in use. No request waits for the
// file.
func TestKubeconfig_TokenFileThatNeverEndsBlocksNoRequest(t *testing.T) {
	for _, by := range []string{"fifo", "huge"} {
		t.Run(by, func(t *testing.T) {
			var wants atomic.Value
			wants.Store("first")
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer "+wants.Load().(string) {
					w.WriteHeader(http.StatusUnauthorized)
				}
			}))
			t.Cleanup(s.Close)
			dir := t.TempDir()
			writeCA(t, dir, s)
			path := filepath.Join(dir, "token")
			write := func(token string) {
				if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("first")
			c := kubeClient(t, dir, s.URL, `{"tokenFile": "token"}`)
			if got := get(t, c, s.URL); got != http.StatusOK {
				t.Errorf("with the token: %d, want %d", got, http.StatusOK)
			}
			wants.Store("second")
			write("second")
			if got := get(t, c, s.URL); got != http.StatusUnauthorized {
				t.Errorf("with the token before: %d, want %d", got, http.StatusUnauthorized)
			}
			// A response with 401 makes the client read the file again.
			if got := get(t, c, s.URL); got != http.StatusOK {
				t.Errorf("with the next token: %d, want %d", got, http.StatusOK)
			}
			wants.Store("third")
			replace(t, path, by)
			for range 2 {
				if got := get(t, c, s.URL); got != http.StatusUnauthorized {
					t.Errorf("without a file: %d, want %d", got, http.StatusUnauthorized)
				}
			}
		})
	}
}

// While a certificate or its key cannot be read, new connections present the previous pair.
func TestKubeconfig_ClientKeyThatNeverEndsBlocksNoConnection(t *testing.T) {
	for _, by := range []string{"fifo", "huge"} {
		t.Run(by, func(t *testing.T) {
			var presented atomic.Int32
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				presented.Store(int32(len(r.TLS.PeerCertificates)))
			}))
			s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
			s.StartTLS()
			t.Cleanup(s.Close)
			dir := t.TempDir()
			writeCA(t, dir, s)
			pair, err := authority.NewPair(time.Now(), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			for name, content := range map[string][]byte{"cert": pair.Cert, "key": pair.Key} {
				if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c := kubeClient(t, dir, s.URL, `{"client-certificate": "cert", "client-key": "key"}`)
			for _, what := range []string{"both files", "no key"} {
				s.CloseClientConnections()
				presented.Store(0)
				if got := get(t, c, s.URL); got != http.StatusOK || presented.Load() != 1 {
					t.Errorf("%s: %d, with %d certificates, want %d and 1", what, got, presented.Load(), http.StatusOK)
				}
				if what == "both files" {
					replace(t, filepath.Join(dir, "key"), by)
				}
			}
		})
	}
}

// While the CA file cannot be read, the previous CA certificates stay in use. Once the file can be
// read, its certificates are used.
func TestKubeconfig_CertificateAuthorityIsFollowedWithinBounds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca")
	first, err := authority.NewPair(time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	second, err := authority.NewPair(time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, second.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, by := range []string{"", "fifo"} {
		c := &connection{files: &followed{disk: &filesystem.Disk{}, ca: path}}
		c.with.TLS.CAData = first.Cert
		want := second.Cert
		if by != "" {
			replace(t, path, by)
			want = first.Cert
		}
		// This is the first read of the CA file.
		if _, err := c.current(); err != nil || !bytes.Equal(c.with.TLS.CAData, want) {
			t.Errorf("%q: got %v\n%s\nwant\n%s", by, err, c.with.TLS.CAData, want)
		}
	}
}
