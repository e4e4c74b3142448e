package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/conformance/bench/proxy"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/xds/resource"
)

// isolation is a penstock serve over two pools, with a peer in this process and a proxy.
type isolation struct {
	folder  string
	names   *channel.Topic
	removed chan struct{} // the process publishes that its picker has dropped the endpoint of pool waits
	arrived chan time.Time
}

const isolationObjects = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: penstock
  listeners: [{name: http, port: 8080, protocol: HTTP}]
`

// pool is a pool with a route, as a file without its servers.
func (*isolation) pool(name string) string {
	return fmt.Sprintf(`---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %[1]s}
spec:
  parentRefs: [{name: gw}]
  hostnames: [%[1]s.example.com]
  rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: %[1]s}]}]
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: %[1]s}
spec: {selector: {matchLabels: {app: %[1]s}}, targetPorts: [{number: 8000}]}
`, name)
}

// serve saves the servers of a pool.
func (i *isolation) serve(pool string, addresses ...string) error {
	text := fmt.Sprintf(
		"apiVersion: penstock.dev/v1alpha1\nkind: ModelServers\nmetadata: {name: %s, labels: {app: %[1]s}}\nspec:\n  "+
			"servers:\n", pool)
	for _, a := range addresses {
		text += fmt.Sprintf("  - {address: %s}\n", a)
	}
	staged := filepath.Join(i.folder, ".staged")
	if err := os.WriteFile(staged, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(staged, filepath.Join(i.folder, pool+"-servers.yaml"))
}

// measureIsolation measures an endpoint's change while another pool's removal waits for a frozen
// peer, and while it waits for none, in turns.
func measureIsolation(ctx context.Context, c config, out report) error {
	folder, err := os.MkdirTemp("", "penstock-isolation-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	i := &isolation{folder: filepath.Join(folder, "config"), removed: make(chan struct{}, 16),
		arrived: make(chan time.Time, 1024)}
	if err := os.Mkdir(i.folder, 0o700); err != nil {
		return err
	}
	objects := isolationObjects + i.pool("waits") + i.pool("flows")
	if err := errors.Join(os.WriteFile(filepath.Join(i.folder, "objects.yaml"), []byte(objects), 0o600),
		i.serve("waits", "10.0.0.1", "10.0.0.2"), i.serve("flows", "10.0.1.1")); err != nil {
		return err
	}
	stop, err := i.start(ctx, c, filepath.Join(folder, "state"))
	if err != nil {
		return err
	}
	defer stop()
	var waiting, alone []time.Duration
	for n := range 60 {
		took, err := i.change(ctx, n, n%2 == 0)
		if err != nil {
			return err
		}
		if n%2 == 0 {
			waiting = append(waiting, took)
		} else {
			alone = append(alone, took)
		}
	}
	with, without := median(waiting), median(alone)
	out("commit_isolation", "", float64(with)/float64(without))
	out("commit_isolation", "waiting", milliseconds(with))
	out("commit_isolation", "alone", milliseconds(without))
	return nil
}

// start runs the process, its peer and a proxy.
func (i *isolation) start(ctx context.Context, c config, state string) (stop func(), err error) {
	var stops []func()
	all := func() {
		for n := len(stops) - 1; n >= 0; n-- {
			stops[n]()
		}
	}
	defer func() {
		if err != nil {
			all()
		}
	}()
	own, err := net.Listen("unix", filepath.Join(filepath.Dir(state), "peer.sock"))
	if err != nil {
		return nil, err
	}
	address := "unix:" + filepath.Join(state, "xds.sock")
	peer := channel.New(channel.Config{Peers: []string{address}})
	i.names = peer.Topic("names")
	i.names.Subscribe(func(_ context.Context, u channel.Update) error {
		for _, it := range u.Items {
			if it.Key == "default/waits" && !u.Snapshot {
				i.removed <- struct{}{}
			}
		}
		return nil
	})
	s := grpc.NewServer()
	peer.Register(s)
	go func() { _ = s.Serve(own) }() // ends with stop
	stops = append(stops, s.Stop)
	p, err := start(c.penstock, "serve", "-f", i.folder, "--state", state, "--picker", "127.0.0.1:0", "--peers",
		"unix:"+own.Addr().String())
	if err != nil {
		return nil, err
	}
	stops = append(stops, p.stop)
	reading, end := context.WithCancel(ctx)
	stops = append(stops, end)
	go func() { _ = peer.Run(reading) }() // ends with stop
	var client *proxy.Proxy
	err = eventually(ctx, func() error {
		if err := p.running(); err != nil {
			return err
		}
		if client != nil {
			client.Close()
		}
		client, err = proxy.Connect(ctx, proxy.Config{
			Address: address, Node: "bench", Cluster: "default/gw", Follow: true, Handle: i.handle,
		})
		if err != nil {
			return err
		}
		if err := client.Start(); err != nil {
			return err
		}
		if !peer.Connected(address) {
			return errors.New("the peer is not connected")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	stops = append(stops, client.Close)
	return all, eventually(ctx, func() error {
		if have := client.Have()[resource.Endpoints]; have["pool/default/waits"] == "" ||
			have["pool/default/flows"] == "" {
			return fmt.Errorf("the proxy has endpoints %v: %w", have, client.Err())
		}
		return nil
	})
}

func (i *isolation) handle(r proxy.Response) {
	for _, item := range r.Items {
		if strings.HasSuffix(item.Name, "pool/default/flows") {
			i.arrived <- r.At
		}
	}
}

// change removes an endpoint of one pool, and measures the change of another pool's endpoint once
// that is in progress.
func (i *isolation) change(ctx context.Context, n int, frozen bool) (took time.Duration, err error) {
	// Back to two endpoints, without a peer in the way.
	i.names.Retract("default/waits")
	if n > 0 {
		if err := i.serve("waits", "10.0.0.1", "10.0.0.2"); err != nil {
			return 0, err
		}
		if err := i.await(ctx, i.removed); err != nil {
			return 0, err
		}
	}
	time.Sleep(400 * time.Millisecond) // what came before is over, holds included
	if frozen {
		i.names.Publish(channel.Item{Key: "default/waits", Value: []byte("stale")})
	} else {
		i.names.Retract("default/waits")
	}
	time.Sleep(50 * time.Millisecond)
	for len(i.removed) > 0 {
		<-i.removed
	}
	if err := i.serve("waits", "10.0.0.2"); err != nil {
		return 0, err
	}
	if err := i.await(ctx, i.removed); err != nil {
		return 0, err
	}
	for len(i.arrived) > 0 {
		<-i.arrived
	}
	begin := time.Now()
	if err := i.serve("flows", fmt.Sprintf("10.0.1.%d", 2+n)); err != nil {
		return 0, err
	}
	select {
	case at := <-i.arrived:
		return at.Sub(begin), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(timeout):
		return 0, errors.New("the change never arrived")
	}
}

func (*isolation) await(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(timeout):
		return errors.New("the process never published what its picker names")
	}
}
