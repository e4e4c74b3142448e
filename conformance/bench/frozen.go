package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Like engines, the servers tokenize prompts one after another before they send headers. A prompt
// has 100 KB.
const (
	frozenServers   = 3
	frozenTokens    = 11_000
	frozenTokenizer = 110_000.0 // tokens a second
	frozenFull      = frozenServers * frozenTokenizer / frozenTokens
	// frozenLearn streams to each server teach the picker how long headers take.
	frozenLearn = 130
	frozenLast  = 20 * time.Second
	frozenLate  = 3 * time.Second
)

type freezing struct {
	*gateway
	servers []*program
	sent    int
	stop    func()
}

func startFreezing(ctx context.Context, c config, headersTimeout string) (*freezing, error) {
	servers, ports, stopServers, err := startServers(c, frozenServers, "--tokenizer-rate", fmt.Sprint(frozenTokenizer),
		"--time-to-first-token", "50ms", "--kv-cache-tokens", "100000000")
	if err != nil {
		return nil, err
	}
	g, err := startGateway(c, routeObject("chat", byPath(""))+poolObjects("chat", ports)+
		policyObject("chat", fmt.Sprintf("picker: {headersTimeout: %s}", headersTimeout)))
	if err != nil {
		stopServers()
		return nil, err
	}
	f := &freezing{gateway: g, servers: servers, stop: func() {
		servers[0].Signal(syscall.SIGCONT)
		stopServers()
		g.close()
	}}
	err = g.serves(ctx, func() error { return f.one(ctx, 0).err })
	if err == nil {
		const streams = frozenServers * frozenLearn
		if failed := failures(f.send(ctx, 0.5, streams, nil)); failed > 0 {
			err = fmt.Errorf("%d of %d streams failed at half of the load", failed, streams)
		}
	}
	if err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

func (f *freezing) one(ctx context.Context, n int) streamed {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	prompt := strings.Repeat(fmt.Sprintf("word%04d ", n%10_000), frozenTokens)
	return stream(ctx, f.url, fmt.Sprintf(`"max_tokens": 2, "messages": [{"role": "user", "content": %q}]`, prompt),
		nil)
}

// send sends n streams at a constant rate; load 1 is frozenFull streams a second.
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

func measureFrozenWait(ctx context.Context, c config, out report) error {
	f, err := startFreezing(ctx, c, "Learned")
	if err != nil {
		return err
	}
	defer f.stop()
	const load, before = 0.6, 20
	list := f.send(ctx, load, before+int(load*frozenFull*frozenLast.Seconds()), func(i int) {
		if i == before {
			f.servers[0].Signal(syscall.SIGSTOP)
		}
	})
	longest, late := time.Duration(0), 0
	var failed []error
	for i, s := range list {
		switch {
		case s.by == "server-0": // server-0 responded before it was frozen
		case s.err != nil:
			failed = append(failed, fmt.Errorf("stream %d of %d: %w", i, len(list), s.err))
		default:
			if longest = max(longest, s.first); s.first > time.Second {
				late++
			}
		}
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	out("frozen_wait", "", longest.Seconds())
	out("frozen_wait", "late", float64(late))
	return nil
}

func measureFrozenStorm(ctx context.Context, c config, out report) error {
	const load = 1.2
	served := map[string]float64{}
	for _, limit := range []string{"Learned", "None"} {
		f, err := startFreezing(ctx, c, limit)
		if err != nil {
			return err
		}
		list := f.send(ctx, load, int(load*frozenFull*frozenLast.Seconds()), nil)
		f.stop()
		for _, s := range list {
			if s.err == nil && s.first <= frozenLate {
				served[limit] += 1 / float64(len(list))
			}
		}
		fmt.Fprintf(os.Stderr, "%s: %d of %d failed\n", limit, failures(list), len(list))
	}
	out("frozen_storm", "", served["None"]/served["Learned"])
	out("frozen_storm", "with", served["Learned"])
	out("frozen_storm", "without", served["None"])
	return nil
}
