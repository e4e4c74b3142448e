package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/conformance/lab/pki"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// simulatedMember is a cluster in this process that publishes exports over mTLS, but has no Envoys.
type simulatedMember struct {
	name       string
	listener   net.Listener
	federation *federation.Federation
	bundle     []byte
	sent       *atomic.Int64
	stop       func()
}

type counted struct {
	net.Listener
	sent *atomic.Int64
}

// Accept implements net.Listener.
func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	return countedConn{conn, c.sent}, err
}

type countedConn struct {
	net.Conn
	sent *atomic.Int64
}

// Write implements net.Conn.
func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

func simulate(number, pools int) (*simulatedMember, error) {
	m := &simulatedMember{name: fmt.Sprintf("c%03d", number), sent: &atomic.Int64{}}
	cert, bundle, err := issue(m.name, federation.ProcessPath)
	if err != nil {
		return nil, err
	}
	if m.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	m.bundle = bundle
	m.federation = federation.New(federation.Config{
		Certificate: func() (*tls.Certificate, error) { return cert, nil },
		Apply:       func(...registry.Update) bool { return true }, Connected: func(string, bool) {},
		Placed: func(registry.Reports) {},
	})
	m.federation.Publish("uid-of-"+m.name, 1, time.Now())
	var exports []export.Export
	for p := range pools {
		e := export.Export{Pool: objectid.Pool{Namespace: "default", Name: fmt.Sprintf("pool-%03d-%03d", number, p)},
			Entry: inferenceapi.ImportedCluster{
				Name: m.name, RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000,
				TargetPorts: []inferenceapi.Port{{Number: 8000}}, FailureMode: "FailClose",
				EndpointPicker: &inferenceapi.EndpointPickerImport{Name: "picker",
					Service: inferenceapi.ServiceImports{{
						Addresses: []string{fmt.Sprintf("10.%d.255.%d", number, p)},
						Ports:     []inferenceapi.Port{{Number: 9002}},
					}}},
			}}
		for i := range 10 {
			e.Entry.Endpoints = append(e.Entry.Endpoints,
				inferenceapi.ImportedEndpoint{Address: fmt.Sprintf("10.%d.%d.%d", number, p, i+1)})
		}
		exports = append(exports, e)
	}
	if err := m.federation.SetExports(exports, false); err != nil {
		return nil, err
	}
	server := grpc.NewServer(m.federation.ServerOptions()...)
	m.federation.Register(server)
	go func() { _ = server.Serve(counted{m.listener, m.sent}) }() // ends with stop
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // ends with the process
		defer close(done)
		_ = m.federation.Run(ctx) // ends with stop
	}()
	m.stop = func() {
		cancel()
		server.Stop()
		<-done
	}
	return m, nil
}

func issue(domain, path string) (cert *tls.Certificate, bundle []byte, err error) {
	ca, err := pki.NewAuthority(domain, time.Now())
	if err != nil {
		return nil, nil, err
	}
	pair, err := ca.Issue(pki.Subject{URI: &url.URL{Scheme: "spiffe", Host: domain, Path: path}})
	if err != nil {
		return nil, nil, err
	}
	own, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	return &own, ca.Certificate, err
}

type importer struct {
	*plane
	files  string
	self   v1alpha1.ClusterSetMember
	events chan offered
	stop   func()
}

type offered struct {
	name string
	at   time.Time
}

func newImporter(ctx context.Context, c config) (i *importer, err error) {
	i = &importer{}
	files, state, remove, err := folder(func(dir string) error { return writeClusterSet(dir, "importer", nil) })
	if err != nil {
		return nil, err
	}
	i.files = files
	if i.plane, err = startPlane(c, "serve", files, state, "--members-listen", "127.0.0.1:0"); err != nil {
		remove()
		return nil, err
	}
	i.stop = func() {
		i.plane.stop()
		remove()
	}
	if err = i.identify(ctx, state); err == nil {
		err = i.follow(ctx)
	}
	if err != nil {
		i.stop()
		return nil, err
	}
	return i, nil
}

func (i *importer) identify(ctx context.Context, state string) error {
	return eventually(ctx, func() error {
		raw, err := os.ReadFile(filepath.Join(state, "cluster", "member.yaml"))
		if err != nil {
			return errors.Join(err, i.Running())
		}
		var list []v1alpha1.ClusterSetMember
		if err := yaml.Unmarshal(raw, &list); err != nil || len(list) != 1 {
			return errors.Join(fmt.Errorf("%d members", len(list)), err)
		}
		i.self = list[0]
		return nil
	})
}

func writeClusterSet(dir, cluster string, members []*simulatedMember) error {
	spec := v1alpha1.ClusterSetSpec{Cluster: cluster}
	for _, m := range members {
		spec.Members = append(spec.Members,
			v1alpha1.ClusterSetMember{Name: m.name,
				Peer:  &v1alpha1.ClusterSetPeer{Address: m.listener.Addr().String(), Bundle: string(m.bundle)},
				Allow: v1alpha1.ClusterSetAllow{Namespaces: []string{"default"}}})
	}
	raw, err := yaml.Marshal(map[string]any{"apiVersion": v1alpha1.Group + "/" + v1alpha1.Version,
		"kind": "ClusterSet", "metadata": map[string]any{"name": "bench"}, "spec": spec})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "set.yaml~"), raw, 0o600); err != nil {
		return err
	}
	return world.Commit(dir, "set.yaml")
}

func (i *importer) follow(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://penstock/debug/store/Offer?watch", nil)
	if err != nil {
		return err
	}
	resp, err := i.api.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return fmt.Errorf("watch of Offers: %s", resp.Status)
	}
	i.events = make(chan offered, 1<<16)
	go func() { // ends with the process
		defer close(i.events)
		defer func() { _ = resp.Body.Close() }()
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			var e struct{ Type, Name string }
			if json.Unmarshal(lines.Bytes(), &e) == nil && e.Type == "put" {
				i.events <- offered{e.Name, time.Now()}
			}
		}
	}()
	return nil
}

func (i *importer) join(members []*simulatedMember) error {
	for _, m := range members {
		m.federation.SetMembers([]federation.Member{
			{Name: i.self.Name, Address: i.self.Peer.Address, Bundle: []byte(i.self.Peer.Bundle)},
		})
	}
	return writeClusterSet(i.files, i.self.Name, members)
}

func (i *importer) wait(ctx context.Context, n int) (at time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	names := map[string]bool{}
	for len(names) < n {
		select {
		case e, ok := <-i.events:
			if !ok {
				return at, fmt.Errorf("the importer ended: %s", i.output())
			}
			names[e.name], at = true, e.at
		case <-ctx.Done():
			return at, fmt.Errorf("%d of %d exports arrived: %w; %s", len(names), n, ctx.Err(), i.output())
		}
	}
	return at, nil
}
