package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/proxy"
	"github.com/penstock-project/penstock/conformance/bench/world"
)

// followerEnv makes this program a follower of the control plane at this address.
const followerEnv = "PENSTOCK_BENCH_FOLLOW"

// follower is a proxy in another process, so that this process's CPU time is the control plane's.
type follower struct {
	cmd     *exec.Cmd
	arrived chan arrival
	have    atomic.Int64
	done    chan struct{}
	err     error // why the follower ended; valid after done closes
}

type arrival struct {
	url  string
	have int64
	at   time.Time
}

func follow(address string) (*follower, error) {
	cmd, err := again(followerEnv + "=" + address)
	if err != nil {
		return nil, err
	}
	f := &follower{cmd: cmd, arrived: make(chan arrival, 1024), done: make(chan struct{})}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := f.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(f.done)
		f.err = errors.Join(f.read(out), f.cmd.Wait())
	}()
	return f, nil
}

func (f *follower) read(out io.Reader) error {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var a arrival
		var nanoseconds int64
		if _, err := fmt.Sscan(lines.Text(), &a.url, &a.have, &nanoseconds); err != nil {
			return fmt.Errorf("follower printed %q: %w", lines.Text(), err)
		}
		a.at = time.Unix(0, nanoseconds)
		f.arrived <- a
		f.have.Store(a.have) // after the send, so that drop() after complete() drops all
	}
	return lines.Err()
}

func (f *follower) complete(ctx context.Context, want int) error {
	return eventually(ctx, func() error {
		select {
		case <-f.done:
			return fmt.Errorf("the follower ended: %w", f.err)
		default:
		}
		if n := int(f.have.Load()); n != want {
			return fmt.Errorf("%d of %d resources", n, want)
		}
		return nil
	})
}

func (f *follower) next(ctx context.Context, url string) (time.Time, error) {
	expired := time.After(timeout)
	for {
		select {
		case a := <-f.arrived:
			if a.url == url {
				return a.at, nil
			}
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case <-expired:
			return time.Time{}, errors.New("the change never arrived")
		}
	}
}

func (f *follower) drop() {
	for len(f.arrived) > 0 {
		<-f.arrived
	}
}

func (f *follower) close() {
	_ = f.cmd.Process.Kill() // an error means that the process has ended
	<-f.done
}

func runFollower(address string) error {
	ended := make(chan error, 1)
	have := map[string]struct{}{}
	p, err := proxy.Connect(context.Background(),
		proxy.Config{Address: address, Node: "bench", Cluster: world.Gateway, Follow: true,
			Handle: func(r proxy.Response) {
				for _, item := range r.Items {
					have[r.URL+item.Name] = struct{}{}
				}
				for _, name := range r.Removed {
					delete(have, r.URL+name)
				}
				if _, err := fmt.Println(r.URL, len(have), r.At.UnixNano()); err != nil {
					ended <- err
				}
			}})
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Start(); err != nil {
		return err
	}
	select {
	case err = <-ended:
	case <-p.Ended():
		err = p.Err()
	}
	return err
}
