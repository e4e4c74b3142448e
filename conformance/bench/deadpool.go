package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/penstock-project/penstock/conformance/lab/retry"
)

const (
	deadPoolServers = 3
	deadPoolTurns   = 5
	deadPoolWarning = "no request can be served"
	deadPoolLimit   = 20 * time.Second
)

func measureDeadPool(ctx context.Context, c config, out report) error {
	for part, signal := range map[string]syscall.Signal{"": syscall.SIGKILL, "frozen": syscall.SIGSTOP} {
		var took []float64
		for range deadPoolTurns {
			d, err := deadPoolTurn(ctx, c, signal)
			if err != nil {
				return err
			}
			took = append(took, d.Seconds())
		}
		out("dead_pool_seen", part, slices.Max(took))
	}
	return nil
}

func deadPoolTurn(ctx context.Context, c config, signal syscall.Signal) (time.Duration, error) {
	servers, ports, stop, err := startServers(c, deadPoolServers)
	if err != nil {
		return 0, err
	}
	defer stop()
	g, err := startGateway(c, routeObject("any", byPath("v1"))+poolObjects("any", ports))
	if err != nil {
		return 0, err
	}
	defer g.close()
	serving := func(want float64) error {
		return g.serves(ctx, func() error {
			page, err := g.page(ctx, "/metrics")
			if err != nil {
				return err
			}
			got, err := metric(page, `penstock_picker_serving_endpoints{pool="default/any"}`)
			if err == nil && got != want {
				err = fmt.Errorf("%g servers serve, want %g", got, want)
			}
			return err
		})
	}
	if err := serving(deadPoolServers); err != nil {
		return 0, err
	}
	time.Sleep(2 * deadPoolServers * time.Second) // for a probe of each server
	for _, s := range servers[1:] {
		s.Signal(signal)
	}
	if err := serving(1); err != nil {
		return 0, err
	}
	if strings.Contains(g.output(), deadPoolWarning) {
		return 0, errors.New("a Warning although a server serves: " + g.output())
	}
	asking, end := context.WithCancel(ctx)
	defer end()
	if signal == syscall.SIGSTOP {
		go g.ask(asking)
		time.Sleep(time.Second)
	}
	began := time.Now()
	servers[0].Signal(signal)
	waiting, late := context.WithTimeout(ctx, deadPoolLimit)
	defer late()
	err = retry.Until(waiting, time.Millisecond, func(context.Context) error {
		if !strings.Contains(g.output(), deadPoolWarning) {
			return errors.New("no Warning: " + g.output())
		}
		return nil
	})
	return time.Since(began), err
}

func (g *gateway) ask(ctx context.Context) {
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			go func() { _, _ = post(ctx, http.DefaultClient, g.url+chatPath, sameChat) }() // an error is expected
		}
	}
}
