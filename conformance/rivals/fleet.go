package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

type fleet struct {
	contender
	url     string
	direct  string
	client  *http.Client
	router  *process.Process
	servers []*process.Process
	names   []string
}

type programs struct {
	penstock, envoy string
	ports           *process.Ports
	folder          string
}

func (p *programs) start(ctx context.Context, c contender, n int, speed []string) (*fleet, error) {
	f := &fleet{contender: c, client: newClient()}
	if err := p.launch(ctx, f, n, speed); err != nil {
		f.stop()
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return f, nil
}

func (p *programs) launch(ctx context.Context, f *fleet, n int, speed []string) error {
	dir := filepath.Join(p.folder, strings.Map(fileName, f.name))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	var ports []int
	for range n + 2 {
		port, err := p.ports.Free()
		if err != nil {
			return err
		}
		ports = append(ports, port)
	}
	servers, port, port2 := ports[:n], ports[n], ports[n+1]
	var urls []string
	for i, at := range servers {
		address, name := fmt.Sprint("127.0.0.1:", at), fmt.Sprint("server-", i)
		args := []string{"sim", "--listen", address, "--name", name, "--model", model, "--grace", "1ms"}
		log := filepath.Join(dir, name+".log")
		server, err := startNice(name, log, nil, slices.Concat([]string{p.penstock}, args, speed))
		if err != nil {
			return err
		}
		f.servers, f.names, urls = append(f.servers, server), append(f.names, name), append(urls, "http://"+address)
	}
	for i, server := range f.servers {
		answers := func() error { return server.Answers(urls[i] + "/health") }
		if err := process.Eventually(ctx, "a server", answers); err != nil {
			return err
		}
	}
	files := filepath.Join(dir, "config")
	config, err := f.writeConfig(files, port, servers)
	if err != nil {
		return err
	}
	command := f.arguments(urls, port, port2, config)
	if len(command) == 0 {
		command = []string{p.penstock, "up", "-f", files, "--state", filepath.Join(dir, "state")}
	}
	f.url, f.direct = fmt.Sprint("http://127.0.0.1:", port), urls[0]
	log, env := filepath.Join(dir, "router.log"), append([]string{"ENVOY=" + p.envoy}, f.env...)
	router, err := startNice(f.name, log, env, command)
	if err != nil {
		return err
	}
	f.router = router
	return f.ready(ctx)
}

// startNice starts a program at a lower priority than the load generator, which must send on time.
func startNice(name, log string, env, command []string) (*process.Process, error) {
	return process.Start(name, log, "nice", env, append([]string{"-n", "10"}, command...)...)
}

func fileName(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
		return r
	}
	return '_'
}

// ready waits until each server has answered. One answer is enough if the router does not show
// which server has answered.
func (f *fleet) ready(ctx context.Context) error {
	var lock sync.Mutex
	served, round := map[string]bool{}, uint64(0)
	return process.Eventually(ctx, "each server answers through the router", func() error {
		if err := f.router.Running(); err != nil {
			return err
		}
		round++
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		errs := make([]error, 2*len(f.names))
		var all sync.WaitGroup
		for i := range errs {
			// No workload has a prompt with this beginning.
			r := request{input: 2, output: 1, blocks: []uint64{1<<40 | round<<8 | uint64(i)}}
			all.Go(func() {
				s := complete(ctx, f.client, f.url, r.body(), r.output)
				lock.Lock()
				defer lock.Unlock()
				errs[i], served[s.server] = s.err, served[s.server] || s.err == nil
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		for _, name := range f.names {
			if !served[""] && !served[name] {
				return fmt.Errorf("%s has not answered", name)
			}
		}
		return nil
	})
}

const (
	filling = 2 * serversOfFleet
	maxFill = 0.3
)

// fill fills the caches before the traffic. It ignores errors: only failures in the traffic count.
func (f *fleet) fill(ctx context.Context, requests []request, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	next := make(chan request)
	var all sync.WaitGroup
	for range filling {
		all.Go(func() {
			for r := range next {
				r.output = 1
				_ = complete(ctx, f.client, f.url, r.body(), r.output)
			}
		})
	}
	for _, r := range requests {
		if ctx.Err() != nil {
			break
		}
		next <- r
	}
	close(next)
	all.Wait()
}

func (f *fleet) stop() {
	for _, p := range append([]*process.Process{f.router}, f.servers...) {
		if p != nil {
			_ = p.Stop(10 * time.Second) // kills a process that does not end in time
		}
	}
	f.client.CloseIdleConnections()
}
