package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/xds/server"
)

const idleEnv = "PENSTOCK_BENCH_IDLE"

// runIdle is the baseline of idle_cpu: a gRPC server with the control plane's options and idle
// streams. It prints its address.
func runIdle(string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Println(l.Addr()); err != nil {
		return err
	}
	wait := func(_ any, s grpc.ServerStream) error { <-s.Context().Done(); return nil }
	return grpc.NewServer(append(server.Options(), grpc.UnknownServiceHandler(wait))...).Serve(l)
}

// idleFloor returns the CPU of 1,000 proxies' keepalive pings, in percent.
func idleFloor(ctx context.Context) (percent float64, err error) {
	cmd, err := again(idleEnv + "=1")
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, cmd.Process.Kill()); _ = cmd.Wait() }() // the error is from Kill
	var address string
	if _, err := fmt.Fscanln(out, &address); err != nil {
		return 0, err
	}
	c, err := gather(ctx, address, streams, nil)
	if err != nil {
		return 0, err
	}
	defer c.close()
	if err := pause(ctx, rest); err != nil {
		return 0, err
	}
	return cpuWhileIdle(ctx, func() (time.Duration, error) { return cpuOf(cmd.Process.Pid) })
}

func cpuWhileIdle(ctx context.Context, cpu func() (time.Duration, error)) (percent float64, err error) {
	before, err := cpu()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := pause(ctx, idleFor); err != nil {
		return 0, err
	}
	after, err := cpu()
	return 100 * float64(after-before) / float64(time.Since(start)), err
}
