package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/conformance/bench/proxy"
	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/xds/resource"
)

// Constants of Envoy Gateway v1.9: its ADS port, the controller name, the node cluster of its
// proxies.
const (
	peerADS        = "127.0.0.1:18000"
	peerController = "gateway.envoyproxy.io/gatewayclass-controller"
)

// saver is a control plane that reads a folder, with a proxy.
type saver struct {
	world   *world.World
	files   string
	proxy   *proxy.Proxy
	process *process
	arrived chan time.Time // of each response with route configurations
	times   []time.Duration
	cpu     []time.Duration
	last    int // revision
	remove  func()
}

func (s *saver) close() {
	if s.proxy != nil {
		s.proxy.Close()
	}
	if s.process != nil {
		s.process.stop()
	}
	s.remove()
}

// measurePeer saves a file of routes with one change and measures until its bytes are at a proxy,
// for penstock serve and for Envoy Gateway with its file provider, in turns. The worlds are small,
// because the peer needs seconds.
func measurePeer(ctx context.Context, c config, out report) error {
	var medians [2][2]time.Duration // by size and control plane
	for n, hosts := range []int{50, 100} {
		size := world.Size{Listeners: 1, Hosts: hosts, Backends: hosts / 5, Endpoints: 10, Port: 8443, NoPools: true}
		ours, err := saveOurs(ctx, c, size)
		if err != nil {
			return fmt.Errorf("penstock: %w", err)
		}
		theirs, err := savePeer(ctx, c, size)
		if err != nil {
			ours.close()
			return fmt.Errorf("envoy-gateway: %w", err)
		}
		for round := 0; round < 3 && err == nil; round++ {
			err = errors.Join(ours.save(ctx), theirs.save(ctx))
		}
		medians[n] = [2]time.Duration{median(ours.times), median(theirs.times)}
		out("change_vs_envoy_gateway", fmt.Sprintf("cpu_ours_%d", hosts), milliseconds(median(ours.cpu)))
		out("change_vs_envoy_gateway", fmt.Sprintf("cpu_peer_%d", hosts), milliseconds(median(theirs.cpu)))
		theirs.close()
		ours.close()
		if err != nil {
			return err
		}
		out("change_vs_envoy_gateway", fmt.Sprintf("ours_%d", hosts), milliseconds(medians[n][0]))
		out("change_vs_envoy_gateway", fmt.Sprintf("peer_%d", hosts), milliseconds(medians[n][1]))
	}
	out("change_vs_envoy_gateway", "", float64(medians[1][0])/float64(medians[1][1]))
	return nil
}

// save changes a route of a file and waits until the proxy has it.
func (s *saver) save(ctx context.Context) error {
	s.last++
	if err := s.world.StageRoutes(s.files, 0, s.last%10, s.last); err != nil {
		return err
	}
	for len(s.arrived) > 0 {
		<-s.arrived
	}
	before, err := s.process.cpu()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := world.Commit(s.files, s.world.RouteFile(0)); err != nil {
		return err
	}
	select {
	case at := <-s.arrived:
		s.times = append(s.times, at.Sub(start))
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(timeout):
		return fmt.Errorf("the change never arrived; %w", s.process.running())
	}
	// Work after the bytes are out, such as a status, is part of the change's cost, so wait until
	// the process is idle.
	after, err := s.process.settled(ctx, 500*time.Millisecond)
	s.cpu = append(s.cpu, after-before)
	return err
}

// attach connects a proxy and waits until it has the first and the last route's chain.
func (s *saver) attach(ctx context.Context, address, cluster string, secured *tls.Config) error {
	s.arrived = make(chan time.Time, 1024)
	var err error
	note := func(r proxy.Response) {
		if r.URL == resource.RouteConfiguration.URL() {
			select {
			case s.arrived <- r.At:
			default: // no receiver
			}
		}
	}
	s.proxy, err = proxy.Connect(ctx, proxy.Config{
		Address: address, Node: "bench", Cluster: cluster, TLS: secured, Follow: true, Handle: note,
		Keepalive: 20 * time.Second, // the peer ends connections that probe more often than every 15 s
	})
	if err != nil {
		return err
	}
	if err := s.proxy.Start(); err != nil {
		return err
	}
	want := s.world.Listeners // one filter chain, and so one route configuration, for each
	return eventually(ctx, func() error {
		if err := errors.Join(s.proxy.Err(), s.process.running()); err != nil {
			return err
		}
		if got := len(s.proxy.Have()[resource.RouteConfiguration]); got < want {
			return fmt.Errorf("%d of %d route configurations", got, want)
		}
		return nil
	})
}

func saveOurs(ctx context.Context, c config, size world.Size) (*saver, error) {
	w, err := world.New(size)
	if err != nil {
		return nil, err
	}
	files, state, remove, err := folder(w.WriteFiles)
	if err != nil {
		return nil, err
	}
	s := &saver{world: w, files: files, remove: remove}
	p, err := startPlane(c, "serve", files, state)
	if err != nil {
		s.close()
		return nil, err
	}
	s.process = p.process
	address, err := p.adsAddress(ctx)
	if err == nil {
		err = s.attach(ctx, address, world.Gateway, nil)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func savePeer(ctx context.Context, c config, size world.Size) (*saver, error) {
	w, err := world.New(size)
	if err != nil {
		return nil, err
	}
	w.Adapt = forPeer
	files, state, remove, err := folder(w.WriteFiles)
	if err != nil {
		return nil, err
	}
	s := &saver{world: w, files: files, remove: remove}
	secured, err := s.startPeer(c, state)
	if err == nil {
		err = s.attach(ctx, peerADS, world.Gateway, secured)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// startPeer creates the peer's certificates, writes its configuration and starts it. It tries to
// run an Envoy, which it cannot fetch without network: it logs that and continues.
func (s *saver) startPeer(c config, state string) (*tls.Config, error) {
	if text, err := exec.Command(c.envoyGateway, "certgen", "--local", "--config-home", state).
		CombinedOutput(); err != nil {
		return nil, fmt.Errorf("certgen: %w: %s", err, text)
	}
	text := fmt.Sprintf(`apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyGateway
gateway: {controllerName: %s}
provider:
  type: Custom
  custom:
    resource: {type: File, file: {paths: [%q]}}
    infrastructure: {type: Host, host: {configHome: %[3]q, dataHome: %[3]q, stateHome: %[3]q, runtimeDir: %[3]q}}
logging: {level: {default: error}}
extensionApis: {enableBackend: true}
`, peerController, s.files, state)
	config := filepath.Join(state, "envoy-gateway.yaml")
	class := fmt.Sprintf(
		"apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: penstock}\nspec: "+
			"{controllerName: %s}\n", peerController)
	if err := errors.Join(os.WriteFile(config, []byte(text), 0o600),
		os.WriteFile(filepath.Join(s.files, "class.yaml"), []byte(class), 0o600)); err != nil {
		return nil, err
	}
	var err error
	if s.process, err = start(c.envoyGateway, "server", "--config-path", config); err != nil {
		return nil, err
	}
	certs := filepath.Join(state, "certs", "envoy")
	pair, err := tls.LoadX509KeyPair(filepath.Join(certs, "tls.crt"), filepath.Join(certs, "tls.key"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(certs, "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: "envoy-gateway",
		NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}, nil
}

// forPeer converts a Service and its EndpointSlice to the peer's own kind, because the peer reads
// neither from files.
func forPeer(object any) any {
	switch o := object.(type) {
	case *corev1.Service:
		return nil
	case *discoveryv1.EndpointSlice:
		var endpoints []any
		for _, e := range o.Endpoints {
			endpoints = append(endpoints, map[string]any{
				"ip": map[string]any{"address": e.Addresses[0], "port": *o.Ports[0].Port},
			})
		}
		return map[string]any{"apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "Backend",
			"metadata": map[string]any{"namespace": o.Namespace, "name": o.Name},
			"spec":     map[string]any{"endpoints": endpoints}}
	case *gatewayv1.HTTPRoute:
		o = o.DeepCopy()
		ref := &o.Spec.Rules[0].BackendRefs[0]
		group, kind := gatewayv1.Group("gateway.envoyproxy.io"), gatewayv1.Kind("Backend")
		ref.Group, ref.Kind, ref.Port = &group, &kind, nil
		return o
	case *gatewayv1.Gateway:
		o = o.DeepCopy()
		o.Spec.Addresses = nil
		return o
	}
	return object
}
