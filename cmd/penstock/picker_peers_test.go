package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/modelserver"
)

// twoPickers starts two pickers that are peers, each with its own Envoy.
func twoPickers(t *testing.T, files map[string]string, servers ...string) []*bareEnvoy {
	t.Helper()
	dir := credentialsFor(t, filepath.Join(t.TempDir(), "credentials"))
	in := func(name string) string { return filepath.Join(dir, name) }
	var peers []string
	var ports []int
	for range 2 {
		peers = append(peers, fmt.Sprintf("127.0.0.1:%d", freePort(t)))
	}
	for _, s := range servers {
		ports = append(ports, portOf(s))
	}
	var pickers []*alonePicker
	for _, own := range peers {
		pickers = append(pickers, startPicker(t, files, "--peers-listen", own, "--peers", strings.Join(peers, ","),
			"--peers-ca", in("ca.crt"), "--peers-cert", in("penstock.crt"), "--peers-key", in("penstock.key")))
	}
	var envoys []*bareEnvoy
	for _, p := range pickers {
		p.errs.expect(t, "connected to a peer")
		envoys = append(envoys, startBareEnvoy(t, bareEnvoy{Pickers: []int{p.port}, Servers: ports, TLS: true}))
	}
	return envoys
}

// ask uses Envoy Gateway's processing mode, where the ext_proc stream lasts as long as the request.
func (e *bareEnvoy) ask(ctx context.Context, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, local(e.Port)+"/v1/chat/completions",
		strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("content-type", "application/json")
	req.Header.Set("x-way", "gateway-original-dst")
	return client().Do(req)
}

func TestStandAlonePicker_PeersShareWherePrefixesAre(t *testing.T) {
	t.Parallel()
	var servers []string
	for i := range 6 {
		cfg := modelserver.Config{Name: fmt.Sprintf("pod-%d", i+1), KVCacheTokens: 1 << 20}
		servers = append(servers, modelServer(t, cfg))
	}
	envoys := twoPickers(t, aloneFiles(servers...), servers...)
	by := func(e *bareEnvoy, i int) string {
		body := fmt.Sprintf(
			`{"model": "llama", "max_tokens": 1, "messages": [{"role": "user", "content": "conversation %d: %s"}]}`, i,
			strings.Repeat(fmt.Sprintf("word-%d ", i), 1000))
		resp, err := e.ask(t.Context(), body)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("conversation %d: got %s, want 200", i, resp.Status)
		}
		return resp.Header.Get("x-served-by")
	}
	const conversations = 20
	first := make([]string, conversations)
	for i := range first {
		first[i] = by(envoys[0], i)
	}
	// Picks are published to peers within 20 ms, long before these requests.
	same := 0
	for i := range conversations - 2 {
		if by(envoys[1], i) == first[i] {
			same++
		}
	}
	if same < conversations-4 { // by chance, three would be the same
		t.Errorf("%d of %d conversations went to the server that has them; the first picker chose %v, want at least %d",
			same,
			conversations-2, first, conversations-4)
	}
}

func TestStandAlonePicker_PeersShareWhatIsInFlight(t *testing.T) {
	t.Parallel()
	slow := modelserver.Config{Name: "pod", InterTokenLatency: 50 * time.Millisecond}
	server := modelServer(t, slow)
	files := aloneFiles(server)
	files["policy.yaml"] =
		"apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: chat}\nspec: {targetRef: {name: " +
			"chat}, picker: {full: {inFlight: 1}}}\n"
	envoys := twoPickers(t, files, server)
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	resp, err := envoys[0].ask(ctx,
		fmt.Sprintf(`{"stream": true, "messages": [{"role": "user", "content": %q}]}`, strings.Repeat("word ", 3000)))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("a stream: got %v, %v, want 200", resp, err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	status := func(want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("the other picker answers %d", want), func() error {
			got, err := envoys[1].ask(t.Context(),
				`{"max_tokens": 1, "messages": [{"role": "user", "content": "hello"}]}`)
			if err != nil {
				return err
			}
			_ = got.Body.Close()
			if got.StatusCode != want {
				return fmt.Errorf("got %s, want %d", got.Status, want)
			}
			return nil
		})
	}
	status(http.StatusTooManyRequests)
	hangUp()
	status(http.StatusOK)
}
