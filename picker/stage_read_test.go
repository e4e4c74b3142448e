package picker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// With BUFFERED, Envoy sends the picker the prompts of known APIs before the pick. Other bodies
// pass unread.
func TestExtProc_PromptsAreReadOnlyWhereTheyAreKnown(t *testing.T) {
	g := startGateway(t, route{Name: "b", Cluster: "closed", Mode: buffered, Allow: true})
	setPools(t, g.picker, Pool{ID: poolID("ns/pool"), Endpoints: g.endpoints()[:1], Body: BodyPrompts})
	for _, size := range []int{1 << 10, 2 << 20} {
		for _, path := range []string{"/b/v1/chat/completions", "/b/v1/unknown"} {
			body := fmt.Appendf(nil, `{"messages":[{"role":"user","content":"%s"}],"model":"m"}`,
				strings.Repeat("word ", size/5))
			if response, text := g.post(t, path, body); response.StatusCode != 200 {
				t.Errorf("%s, %d bytes: got %s %s, want 200", path, size, response.Status, text)
			}
			if _, got := g.pods[0].received(); !bytes.Equal(got, body) {
				t.Errorf("%s: %d bytes of %d arrived, want all unchanged", path, len(got), len(body))
			}
			<-g.pods[0].begun
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	unfinished := func(path, content string) (rest *io.PipeWriter, done <-chan error) {
		from, to := io.Pipe()
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+path, from)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("content-type", content)
		over := make(chan error, 1)
		go func() {
			response, err := http.DefaultClient.Do(request)
			if err == nil {
				_ = response.Body.Close()
			}
			over <- err
		}()
		fmt.Fprint(to, `{"model":"m",`)
		return to, over
	}
	stalled, _ := unfinished("/b/v1/completions", "application/json")
	defer stalled.Close()
	for path, content := range map[string]string{
		"/b/v1/files": "application/json", "/b/v1/chat/completions": "multipart/form-data; boundary=x",
		"/b/some.Service/Method": "application/grpc",
	} {
		rest, done := unfinished(path, content)
		select {
		case got := <-g.pods[0].begun:
			if got != path {
				t.Errorf("%s has begun, want %s", got, path)
			}
		case <-time.After(poll.Limit):
			t.Fatalf("%s waits for its body, want it sent at once", path)
		}
		fmt.Fprint(rest, strings.Repeat("more", 1<<16))
		_ = rest.Close()
		if err := <-done; err != nil {
			t.Errorf("%s: got %v, want no error", path, err)
		}
	}
	if n := g.picker.wire.bodies.Held(); n != 0 {
		t.Errorf("%d bytes are held: Envoy has them, want 0", n)
	}
}
