package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func measureOverheads(ctx context.Context, c config, out report) error {
	var deploys, swaps, alone []float64
	for range overheads {
		took, err := engineAlone(ctx, c)
		if err != nil {
			return err
		}
		alone = append(alone, took)
	}
	two := deploymentObject("a", "gpu", "  resources: {gpu: 1}") + deploymentObject("b", "gpu", "  resources: {gpu: 1}")
	f, err := startFleet(c, gpuEngine+two, "--devices", "1")
	if err != nil {
		return err
	}
	defer f.close()
	client := &http.Client{Timeout: timeout}
	if err := f.serves(ctx, func() error { _, err := f.asks(ctx, client, "a"); return err }); err != nil {
		return err
	}
	for n := range overheads {
		model := []string{"b", "a"}[n%2]
		began := time.Now()
		if _, err := f.asks(ctx, client, model); err != nil {
			return fmt.Errorf("swap %d: %w", n, err)
		}
		swaps = append(swaps, time.Since(began).Seconds())
	}
	objects := gpuEngine + two
	for n := range overheads {
		name := fmt.Sprint("new-", n)
		objects += deploymentObject(name, "sim", "")
		began := time.Now()
		if err := f.write(objects); err != nil {
			return err
		}
		if err := f.serves(ctx, func() error { _, err := f.asks(ctx, client, name); return err }); err != nil {
			return err
		}
		deploys = append(deploys, time.Since(began).Seconds())
	}
	own := middle(alone)
	out("deploy_overhead", "", max(middle(deploys)-own, 0))
	out("deploy_overhead", "engine", own)
	out("swap_overhead", "", max(middle(swaps)-own, 0))
	out("swap_overhead", "slowest", slices.Max(swaps)-own)
	return nil
}

func middle(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}

func engineAlone(ctx context.Context, c config) (float64, error) {
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	p, err := start(c.penstock, "sim", "--listen", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		return 0, err
	}
	err = eventually(ctx, func() error {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/health", port))
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
	p.stop()
	return time.Since(began).Seconds(), err
}

// restEnv makes this program a model server of fleet_idle. It has the address, and the Unix socket
// for the listener.
const restEnv = "PENSTOCK_BENCH_REST"

// restingEngine is this program, because 200 simulated servers need too much memory. A process
// listens, as penstock requires, and becomes a sleep. The benchmark accepts its connections.
const restingEngine = `---
apiVersion: penstock.dev/v1alpha1
kind: Engine
metadata: {name: rests}
spec:
  versions:
  - version: v1
    supportedTasks: [text-generation]
    deployTemplate:
      process: {program: env, args: ['PENSTOCK_BENCH_REST=${host}:${port} %s', %q]}
`

func runRest(addresses string) error {
	at, to, _ := strings.Cut(addresses, " ")
	l, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	fd := int(file.Fd())
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: to})
	if err != nil {
		return err
	}
	if _, _, err := conn.WriteMsgUnix([]byte{0}, syscall.UnixRights(fd), nil); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil { // keeps the listener open across exec
		return err
	}
	program, err := exec.LookPath("sleep")
	if err != nil {
		return err
	}
	return syscall.Exec(program, []string{"sleep", "infinity"}, os.Environ())
}

// receive takes listeners from the Unix socket, and forwards their connections.
func receive(socket *net.UnixListener, to string) {
	for {
		conn, err := socket.AcceptUnix()
		if err != nil {
			return
		}
		if l, err := listenerFrom(conn); err == nil {
			go func() {
				for {
					client, err := l.Accept()
					if err != nil {
						return
					}
					go forward(client, to)
				}
			}()
		}
	}
}

func listenerFrom(conn *net.UnixConn) (net.Listener, error) {
	defer func() { _ = conn.Close() }()
	oob := make([]byte, syscall.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(fmt.Errorf("%d control messages", len(messages)), err)
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(fmt.Errorf("%d listeners", len(fds)), err)
	}
	file := os.NewFile(uintptr(fds[0]), "listener")
	defer func() { _ = file.Close() }()
	return net.FileListener(file)
}

func forward(client net.Conn, to string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close() // ends the copy to the client
	}()
	_, _ = io.Copy(client, server)
}

func measureFleet(ctx context.Context, c config, out report) error {
	alone, err := startFleet(c, "")
	if err != nil {
		return err
	}
	without, err := alone.rests(ctx)
	alone.close()
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	sim := fmt.Sprint("127.0.0.1:", port)
	server, err := start(c.penstock, "sim", "--listen", sim)
	if err != nil {
		return err
	}
	defer server.stop()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "penstock-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	path := filepath.Join(folder, "listeners")
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return err
	}
	defer func() { _ = socket.Close() }()
	go receive(socket, sim)
	objects := fmt.Sprintf(restingEngine, path, self)
	for i := range fleetSize {
		objects += deploymentObject(fmt.Sprint("m", i), "rests", "  idle: 0s")
	}
	f, err := startFleet(c, objects)
	if err != nil {
		return err
	}
	defer f.close()
	if err := f.serves(ctx, func() error {
		page, err := f.page(ctx, "/status")
		if n := bytes.Count(page, []byte(`"Running"`)); err == nil && n < fleetSize {
			err = fmt.Errorf("%d deployments run", n)
		}
		return err
	}); err != nil {
		return err
	}
	used, err := f.rests(ctx)
	out("fleet_idle", "", used-without)
	out("fleet_idle", "total", used)
	out("fleet_idle", "without", without)
	return err
}

// rests returns an idle penstock's CPU time, in percent of a core.
func (f *fleet) rests(ctx context.Context) (float64, error) {
	if err := f.settled(ctx, 10*time.Second); err != nil {
		return 0, err
	}
	before, err := f.cpu()
	if err != nil {
		return 0, err
	}
	pause := time.NewTimer(fleetRest)
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-pause.C:
	}
	after, err := f.cpu()
	return 100 * (after - before).Seconds() / fleetRest.Seconds(), err
}
