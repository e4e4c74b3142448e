package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	drainStreams = 30
	drainWords   = 100 // tokens of a stream, one every 50 ms
	drainClients = 8
)

func measureDrain(ctx context.Context, c config, out report) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	_, ports, stopServers, err := startServers(c, 2, "--inter-token-latency", "50ms")
	if err != nil {
		return err
	}
	defer stopServers()
	g, err := startGateway(c, routeObject("chat", byPath(""))+poolObjects("chat", ports)+
		policyObject("chat", "picker: {headersTimeout: None}"))
	if err != nil {
		return err
	}
	defer g.close()
	request := func(ctx context.Context, words int, begun func()) error {
		prompt := strings.Repeat("word ", words)
		return stream(ctx, g.url, fmt.Sprintf(`"messages": [{"role": "user", "content": %q}]`, prompt), begun).err
	}
	if err := g.serves(ctx, func() error { return request(ctx, 1, nil) }); err != nil {
		return err
	}
	var cut atomic.Int64
	var streams, begun, load sync.WaitGroup
	begun.Add(drainStreams)
	for range drainStreams {
		streams.Go(func() {
			once := sync.OnceFunc(begun.Done)
			defer once() // also begun if the stream fails
			if err := request(ctx, drainWords, once); err != nil {
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
				_ = request(loading, 2, nil) // an error means that the gateway has ended
			}
		})
	}
	g.Signal(syscall.SIGTERM)
	streams.Wait()
	stop()
	load.Wait()
	out("drain_cut", "", float64(cut.Load()))
	out("drain_cut", "of", drainStreams)
	return nil
}
