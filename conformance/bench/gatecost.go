package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/picks"
	"github.com/penstock-project/penstock/conformance/promises/attacks"
	"github.com/penstock-project/penstock/conformance/promises/process"
)

const (
	gateUploads    = 20
	gateUploadSize = 30 << 20
	gateKeyFiles   = 100 // 1,000 keys each
)

func measureGateCost(ctx context.Context, c config, out report) error {
	models, err := picks.StartModels(pickModels)
	if err != nil {
		return err
	}
	defer models.Close()
	var ports []int
	for _, m := range models.Addresses {
		ports = append(ports, int(m.Port()))
	}
	objects := gatedObjects(ports, "watched") + watchedObjects() + policyObject("chat", "picker: {prefix: false}")
	g, err := startGates(ctx, c, 1, objects)
	if err != nil {
		return err
	}
	defer g.close()
	if err := g.uploads(ctx, out); err != nil {
		return err
	}
	key, err := g.memory(ctx, out)
	if err != nil {
		return g.explained(err)
	}
	return g.cost(ctx, key, out)
}

func (g *gates) uploads(ctx context.Context, out report) error {
	before, err := process.RSS(g.envoy())
	if err != nil {
		return err
	}
	peak := process.Peak(ctx, g.envoy())
	u, err := attacks.Stall(ctx, fmt.Sprintf("127.0.0.1:%d", g.port), "/large", gateUploads, gateUploadSize)
	if err != nil {
		peak()
		return err
	}
	defer u.Close()
	err = eventually(ctx, func() error {
		if n := u.Answered(); n < gateUploads {
			return fmt.Errorf("%d of %d uploads are answered", n, gateUploads)
		}
		return nil
	})
	out("gate_upload", "", max(0, float64(peak()-before)/(1<<20)))
	return err
}

func (g *gates) memory(ctx context.Context, out report) (key string, err error) {
	p := g.planes[0]
	if err := p.settled(ctx, time.Second); err != nil {
		return "", err
	}
	before, err := memoryAtRest(ctx, p)
	if err != nil {
		return "", err
	}
	cpu, err := p.cpu()
	if err != nil {
		return "", err
	}
	if key, err = g.writeKeys(gateKeyFiles, ""); err != nil {
		return "", err
	}
	if err := g.decided(ctx, key, http.StatusOK); err != nil {
		return "", err
	}
	if err := p.settled(ctx, time.Second); err != nil {
		return "", err
	}
	used, err := p.cpu()
	if err != nil {
		return "", err
	}
	after, err := memoryAtRest(ctx, p)
	out("keys_memory", "", after-before)
	out("keys_memory", "without", before)
	out("keys_memory", "cpu", (used - cpu).Seconds())
	return key, err
}

func (g *gates) cost(ctx context.Context, key string, out report) error {
	s := saturation{
		clients: picks.Clients{Address: fmt.Sprintf("127.0.0.1:%d", g.port), Connections: pickConnections},
		size:    1 << 10, turns: 24, lasts: 500 * time.Millisecond,
		settle: 200 * time.Millisecond, // for the usage to be counted
		requests: func(route string, size, turn int) (list [][]byte) {
			host := map[string]string{"gated": gatedHost, "open": "open.example", "watched": watchedHost}[route]
			for _, r := range requests(route, size, turn) {
				line := host + "\r\nauthorization: Bearer " + key
				list = append(list, bytes.Replace(r, []byte(gatedHost), []byte(line), 1))
			}
			return list
		},
	}
	s.cpu = func(string) (time.Duration, error) {
		ours, err := g.planes[0].cpu()
		theirs, errEnvoy := cpuOf(g.envoy())
		return ours + theirs, errors.Join(err, errEnvoy)
	}
	costs, err := s.costs(ctx, "gated", "open")
	if err != nil {
		return err
	}
	out("gate_cpu", "", costs["gated"]/costs["open"])
	out("gate_cpu", "gated", costs["gated"])
	out("gate_cpu", "open", costs["open"])
	// A separate call: costs alternates between its routes.
	if costs, err = s.costs(ctx, "watched", "gated"); err != nil {
		return err
	}
	out("gate_cpu", "watched", costs["watched"])
	out("gate_cpu", "watch_call", costs["watched"]-costs["gated"])
	return nil
}
