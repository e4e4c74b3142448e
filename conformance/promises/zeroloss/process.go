package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

const limit = process.Limit

type plane struct {
	*process.Process
	name               string
	binary, dir, state string
	drain              time.Duration
	picker, status     int
	pickers            []int
	peers              []*plane
	extra              []string
}

func (p *plane) start(logDir string) (err error) {
	args := []string{
		"serve", "-f", p.dir, "--state", p.state, "--log-level", "info", "--drain-time", p.drain.String(),
		"--picker", fmt.Sprintf("127.0.0.1:%d", p.picker), "--http", fmt.Sprintf("127.0.0.1:%d", p.status),
	}
	for _, port := range p.pickers {
		args = append(args, "--picker-address", fmt.Sprintf("127.0.0.1:%d", port))
	}
	for _, peer := range p.peers {
		args = append(args, "--peers", process.ADS(peer.state))
	}
	p.Process, err = process.Start(p.name, filepath.Join(logDir, p.name+".log"), p.binary, nil,
		append(args, p.extra...)...)
	return err
}

func (p *plane) ready(ctx context.Context) error {
	return process.Eventually(ctx, p.name+" is ready", p.readyz)
}

func (p *plane) readyz() error { return p.Answers(fmt.Sprintf("http://127.0.0.1:%d/readyz", p.status)) }

func startEnvoy(binary, envoy, dir, name string, admin int, drain time.Duration, planes ...*plane) (*process.Process,
	error) {
	args := []string{"--gateway", "default/gw", "--admin", fmt.Sprintf("127.0.0.1:%d", admin), "--drain-time",
		drain.String(), "--concurrency", "2"}
	for _, p := range planes {
		args = append(args, "--xds", process.ADS(p.state))
	}
	return process.StartEnvoy(binary, envoy, dir, name, args...)
}
