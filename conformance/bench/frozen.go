package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The servers tokenize one prompt after the other before they send headers, as engines do. A prompt
// has 100 KB, which are frozenTokens, and takes 0.1 s.
const (
	frozenServers   = 3
	frozenTokens    = 11_000
	frozenTokenizer = 110_000.0 // tokens a second
	frozenFull      = frozenServers * frozenTokenizer / frozenTokens
	// frozenLearn is how many streams each server gets first, more than the picker needs.
	frozenLearn = 130
	// frozenLast is how long clients send then, and frozenLate after how long a first token is
	// late.
	frozenLast = 20 * time.Second
	frozenLate = 3 * time.Second
)

const frozenObjects = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: penstock
  addresses: [{value: 127.0.0.1}]
  listeners: [{name: http, port: %d, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat}
spec:
  parentRefs: [{name: gw}]
  rules:
  - backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: chat}]
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: chat}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: 8000}]}
---
apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: chat}
spec:
  targetRef: {name: chat}
  picker: {headersTimeout: %s}
---
apiVersion: penstock.dev/v1alpha1
kind: ModelServers
metadata: {name: model, labels: {app: model}}
spec:
  servers:
`

// freezing is penstock up with its Envoy before servers of penstock sim.
type freezing struct {
	servers []*process
	plane   *plane
	url     string
	sent    int // prompts so far
	remove  func()
}

// startFreezing starts them with a value of picker.headersTimeout, and has the picker learn.
func startFreezing(ctx context.Context, c config, headersTimeout string) (*freezing, error) {
	f := &freezing{remove: func() {}}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	objects := fmt.Sprintf(frozenObjects, port, headersTimeout)
	for i := range frozenServers {
		at, err := freePort()
		if err != nil {
			return f, err
		}
		p, err := start(c.penstock, "sim", "--listen", fmt.Sprint("127.0.0.1:", at), "--name", fmt.Sprint("server-", i),
			"--tokenizer-rate", fmt.Sprint(frozenTokenizer), "--time-to-first-token", "50ms", "--kv-cache-tokens",
			"100000000", "--grace", "1ms")
		if err != nil {
			return f, err
		}
		f.servers = append(f.servers, p)
		objects += fmt.Sprintf("  - {address: 127.0.0.1, ports: [%d]}\n", at)
	}
	files, state, remove, err := folder(func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(objects), 0o600)
	})
	if err != nil {
		return f, err
	}
	f.remove = remove
	if f.plane, err = startPlane(c, "up", files, state, "--concurrency", "1"); err != nil {
		return f, err
	}
	f.url = fmt.Sprintf("http://127.0.0.1:%d/v1/chat/completions", port)
	if err := eventually(ctx, func() error { return errors.Join(f.one(ctx, 0).err, f.plane.running()) }); err != nil {
		return f, fmt.Errorf("%w: %s", err, f.plane.output())
	}
	const streams = frozenServers * frozenLearn
	if failed := failures(f.send(ctx, 0.5, streams, nil)); failed > 0 {
		return f, fmt.Errorf("%d of %d streams failed at half of the load", failed, streams)
	}
	return f, nil
}

func (f *freezing) close() {
	for _, s := range f.servers {
		_ = s.cmd.Process.Signal(syscall.SIGCONT)
		s.stop()
	}
	if f.plane != nil {
		f.plane.stop()
	}
	f.remove()
}

// streamed is what became of a stream: when its headers and its first token came, from when it was
// sent.
type streamed struct {
	sent            time.Time
	headers, tokens time.Duration
	by              string // the server that sent headers
	err             error
}

// one sends a stream with a prompt that no server has cached.
func (f *freezing) one(ctx context.Context, n int) (s streamed) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	word := fmt.Sprintf("word%04d ", n%10_000)
	prompt := strings.Repeat(word, frozenTokens)
	body := fmt.Sprintf(
		`{"model": "sim-model", "stream": true, "max_tokens": 2, "messages": [{"role": "user", "content": %q}]}`,
		prompt)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, bytes.NewReader([]byte(body)))
	if err != nil {
		return streamed{err: err}
	}
	req.Header.Set("content-type", "application/json")
	s.sent = time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.err = err
		return s
	}
	defer func() { _ = resp.Body.Close() }()
	s.headers, s.by = time.Since(s.sent), resp.Header.Get("x-served-by")
	if resp.StatusCode != http.StatusOK {
		s.err = errors.New(resp.Status)
	}
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
		s.err = errors.Join(s.err, err)
	}
	s.tokens = time.Since(s.sent)
	_, err = io.Copy(io.Discard, resp.Body)
	s.err = errors.Join(s.err, err)
	return s
}

// send sends so many streams at a multiple of 100 % load, each at its time. between is called
// before each one.
func (f *freezing) send(ctx context.Context, load float64, n int, between func(i int)) []streamed {
	out := make([]streamed, n)
	var clients sync.WaitGroup
	tick := time.NewTicker(time.Duration(float64(time.Second) / (load * frozenFull)))
	defer tick.Stop()
	for i := range n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			out[i].err = ctx.Err()
			continue
		}
		if between != nil {
			between(i)
		}
		f.sent++
		number := f.sent
		clients.Go(func() { out[i] = f.one(ctx, number) })
	}
	clients.Wait()
	return out
}

func failures(list []streamed) (n int) {
	for _, s := range list {
		if s.err != nil {
			n++
		}
	}
	return n
}

// measureFrozenWait stops one of the servers at 60 % load of all. Streams whose headers it has sent
// are lost with it.
func measureFrozenWait(ctx context.Context, c config, out report) error {
	f, err := startFreezing(ctx, c, "Learned")
	if f != nil {
		defer f.close()
	}
	if err != nil {
		return err
	}
	const load, before = 0.6, 20
	list := f.send(ctx, load, before+int(load*frozenFull*frozenLast.Seconds()), func(i int) {
		if i == before {
			_ = f.servers[0].cmd.Process.Signal(syscall.SIGSTOP)
		}
	})
	longest, late, failed := time.Duration(0), 0, 0
	for i, s := range list {
		switch {
		case s.by == "server-0": // it had begun
		case s.err != nil:
			failed++
			fmt.Fprintf(os.Stderr, "stream %d of %d: %v\n", i, len(list), s.err)
		default:
			if longest = max(longest, s.tokens); s.tokens > time.Second {
				late++
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d streams failed", failed, len(list))
	}
	out("frozen_wait", "", longest.Seconds())
	out("frozen_wait", "late", float64(late))
	return nil
}

// measureFrozenStorm offers 120 % load to servers none of which freezes.
func measureFrozenStorm(ctx context.Context, c config, out report) error {
	const load = 1.2
	served := map[string]float64{}
	for _, limit := range []string{"Learned", "None"} {
		f, err := startFreezing(ctx, c, limit)
		if err == nil {
			list := f.send(ctx, load, int(load*frozenFull*frozenLast.Seconds()), nil)
			for _, s := range list {
				if s.err == nil && s.tokens <= frozenLate {
					served[limit]++
				}
			}
			fmt.Fprintf(os.Stderr, "%s: %d of %d failed\n", limit, failures(list), len(list))
			served[limit] /= float64(len(list))
		}
		if f != nil {
			f.close()
		}
		if err != nil {
			return err
		}
	}
	out("frozen_storm", "", served["None"]/served["Learned"])
	out("frozen_storm", "with", served["Learned"])
	out("frozen_storm", "without", served["None"])
	return nil
}
