package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	drainStreams = 30
	drainWords   = 100 // tokens of a stream, 50 ms apart
	drainClients = 8   // that send short requests without a pause
)

// draining is penstock up before two servers whose streams take 5 s.
type draining struct {
	servers []*process
	plane   *plane
	url     string
	remove  func()
}

func startDraining(ctx context.Context, c config) (*draining, error) {
	d := &draining{remove: func() {}}
	port, err := freePort()
	if err != nil {
		return d, err
	}
	objects := fmt.Sprintf(frozenObjects, port, "None")
	for i := range 2 {
		at, err := freePort()
		if err != nil {
			return d, err
		}
		p, err := start(c.penstock, "sim", "--listen", fmt.Sprint("127.0.0.1:", at), "--name", fmt.Sprint("server-", i),
			"--inter-token-latency", "50ms", "--grace", "1ms")
		if err != nil {
			return d, err
		}
		d.servers = append(d.servers, p)
		objects += fmt.Sprintf("  - {address: 127.0.0.1, ports: [%d]}\n", at)
	}
	files, state, remove, err := folder(func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(objects), 0o600)
	})
	if err != nil {
		return d, err
	}
	d.remove = remove
	if d.plane, err = startPlane(c, "up", files, state, "--concurrency", "1"); err != nil {
		return d, err
	}
	d.url = fmt.Sprintf("http://127.0.0.1:%d/v1/chat/completions", port)
	return d, eventually(ctx, func() error { return errors.Join(d.request(ctx, 1, nil), d.plane.running()) })
}

func (d *draining) close() {
	for _, s := range d.servers {
		s.stop()
	}
	if d.plane != nil {
		d.plane.stop()
	}
	d.remove()
}

// request streams a response of so many words. It calls begun at the first.
func (d *draining) request(ctx context.Context, words int, begun func()) error {
	body := fmt.Sprintf(`{"model": "sim-model", "stream": true, "messages": [{"role": "user", "content": %q}]}`,
		strings.Repeat("word ", words))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("content-type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for first := true; lines.Scan(); {
		if first && begun != nil && strings.HasPrefix(lines.Text(), "data: ") {
			first = false
			begun()
		}
		if lines.Text() == "data: [DONE]" {
			return nil
		}
	}
	return errors.Join(errors.New("cut"), lines.Err())
}

// measureDrain ends penstock up in the middle of streams, while other clients send requests.
func measureDrain(ctx context.Context, c config, out report) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	d, err := startDraining(ctx, c)
	defer d.close()
	if err != nil {
		return err
	}
	var cut atomic.Int64
	var streams, begun, load sync.WaitGroup
	begun.Add(drainStreams)
	for range drainStreams {
		streams.Go(func() {
			once := sync.OnceFunc(begun.Done)
			defer once() // also of one that fails
			if err := d.request(ctx, drainWords, once); err != nil {
				cut.Add(1)
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	begun.Wait()
	loading, stop := context.WithCancel(ctx)
	for range drainClients {
		load.Go(func() {
			for loading.Err() == nil {
				_ = d.request(loading, 2, nil) // new connections are refused once it ends
			}
		})
	}
	if err := d.plane.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		stop()
		return err
	}
	streams.Wait()
	stop()
	load.Wait()
	out("drain_cut", "", float64(cut.Load()))
	out("drain_cut", "of", drainStreams)
	return nil
}
