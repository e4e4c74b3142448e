package features

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// Envoy closes gRPC clients that begin no call for 50 s. This must not end requests of 53 s.
func TestLong_RequestsOfAMinuteAreServed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.backend("own", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "slow") {
			time.Sleep(53 * time.Second)
		}
		_, _ = io.WriteString(w, `{"choices": []}`)
	}))
	s.up("ended.yaml")
	s.answers("/", http.StatusOK)
	var all sync.WaitGroup
	for _, size := range []int{0, 20_000} { // larger bodies are counted as uploads
		all.Go(func() {
			body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"slow"}],"user":%q}`,
				strings.Repeat("x", size))
			req, err := request(s.Context(), s.url("/"), body)
			if err == nil {
				var got reply
				got, err = do(&http.Client{Timeout: 3 * time.Minute}, req)
				err = errors.Join(err, because(got.status == http.StatusOK, got.status, got.body))
			}
			if err != nil {
				t.Errorf("a body of %d bytes: %v", size, err)
			}
		})
	}
	all.Wait()
	s.answers("/", http.StatusOK)
	if text, err := os.ReadFile(s.log); err != nil || strings.Contains(string(text), "Envoy died") {
		t.Errorf("Penstock's log: got %v\n%s\nwant no death of Envoy", err, text)
	}
}
