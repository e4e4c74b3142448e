package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
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
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// simulatedMember is another cluster of the set, in this process: it publishes exports over real
// mTLS streams, and has no Envoys.
type simulatedMember struct {
	name       string
	listener   net.Listener
	federation *federation.Federation
	bundle     []byte
	exports    []export.Export
	sent       *atomic.Int64 // bytes to those who subscribe
	stop       func()
}

// counted counts what is sent on the connections of a listener.
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

// simulate starts a member that exports some pools with ten endpoints each, of names that begin
// with a text. number selects its addresses.
func simulate(number, pools int, names string) (*simulatedMember, error) {
	m := &simulatedMember{name: fmt.Sprintf("c%03d", number), sent: &atomic.Int64{}}
	cert, bundle, err := issue("spiffe://" + m.name + federation.ProcessPath)
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
	for p := range pools {
		e := export.Export{Pool: objectid.Pool{Namespace: "default", Name: fmt.Sprintf("%s-%03d", names, p)},
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
		m.exports = append(m.exports, e)
	}
	if err := m.federation.SetExports(m.exports, false); err != nil {
		return nil, err
	}
	server := grpc.NewServer(m.federation.ServerOptions()...)
	m.federation.Register(server)
	go func() { _ = server.Serve(counted{m.listener, m.sent}) }() // ends with stop
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
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

// change replaces one endpoint of a pool. It returns the name of the Offer that changes at an
// importer.
func (m *simulatedMember) change(pool, revision int) (offer string, err error) {
	e := &m.exports[pool]
	e.Entry.Endpoints = append([]inferenceapi.ImportedEndpoint(nil), e.Entry.Endpoints...)
	e.Entry.Endpoints[0].Address = fmt.Sprintf("10.200.%d.%d", revision>>8&255, revision&255)
	return "default/" + store.OfferName(e.Pool.Name, m.name), m.federation.SetExports(m.exports, false)
}

// issue returns a certificate of a SPIFFE ID, and that of the CA that signed it.
func issue(id string) (cert *tls.Certificate, bundle []byte, err error) {
	ca, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	uri, err := url.Parse(id)
	if err != nil {
		return nil, nil, err
	}
	until := time.Now().Add(24 * time.Hour)
	top := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: until, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	topDER, err := x509.CreateCertificate(rand.Reader, top, top, ca.Public(), ca)
	if err != nil {
		return nil, nil, err
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: until, URIs: []*url.URL{uri},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, top, key.Public(), ca)
	if err != nil {
		return nil, nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: topDER}), nil
}

// importer is a penstock serve that imports what simulated members export. No route names it.
type importer struct {
	*plane
	files  string
	self   v1alpha1.ClusterSetMember
	remove func()
	events chan offered
	stop   func()
}

// offered is that the importer's store has an export of a member: its Offer was committed.
type offered struct {
	name string
	at   time.Time
}

// newImporter starts a penstock serve with a ClusterSet without members.
func newImporter(ctx context.Context, c config) (i *importer, err error) {
	i = &importer{}
	write := func(dir string) error { return writeClusterSet(dir, "importer", nil) }
	var state string
	if i.files, state, i.remove, err = folder(write); err != nil {
		return nil, err
	}
	if i.plane, err = startPlane(c, "serve", i.files, state, "--members-listen", "127.0.0.1:0"); err != nil {
		i.remove()
		return nil, err
	}
	i.stop = func() {
		i.plane.stop()
		i.remove()
	}
	if i.self, err = memberOf(ctx, i.plane, state); err == nil {
		err = i.follow(ctx)
	}
	if err != nil {
		i.stop()
	}
	return i, err
}

// memberOf waits until a penstock is ready to be a member, and returns what others write of it.
func memberOf(ctx context.Context, p *plane, state string) (m v1alpha1.ClusterSetMember, err error) {
	err = eventually(ctx, func() error {
		raw, err := os.ReadFile(filepath.Join(state, "cluster", "member.yaml"))
		if err != nil {
			return errors.Join(err, p.running())
		}
		var list []v1alpha1.ClusterSetMember
		if err := yaml.Unmarshal(raw, &list); err != nil || len(list) != 1 {
			return fmt.Errorf("%d members: %w", len(list), err)
		}
		m = list[0]
		return nil
	})
	return m, err
}

// writeClusterSet stages and saves a ClusterSet.
func writeClusterSet(dir, cluster string, members []*simulatedMember) error {
	set := v1alpha1.ClusterSet{Spec: v1alpha1.ClusterSetSpec{Cluster: cluster}}
	set.APIVersion, set.Kind, set.Name = v1alpha1.Group+"/"+v1alpha1.Version, "ClusterSet", "bench"
	for _, m := range members {
		set.Spec.Members = append(set.Spec.Members,
			v1alpha1.ClusterSetMember{Name: m.name,
				Peer:  &v1alpha1.ClusterSetPeer{Address: m.listener.Addr().String(), Bundle: string(m.bundle)},
				Allow: v1alpha1.ClusterSetAllow{Namespaces: []string{"default"}}})
	}
	return writeObject(dir, "set.yaml", set)
}

// writeObject saves an object as a file.
func writeObject(dir, name string, object any) error {
	raw, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	var plain map[string]any
	if err := yaml.Unmarshal(raw, &plain); err != nil {
		return err
	}
	delete(plain, "status")
	if raw, err = yaml.Marshal(plain); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, name+"~"), raw, 0o600); err != nil {
		return err
	}
	return world.Commit(dir, name)
}

// follow reads which Offers the importer's store commits, from now on.
func (i *importer) follow(ctx context.Context) error {
	body, err := i.open(ctx, "/debug/store/Offer?watch")
	if err != nil {
		return err
	}
	i.events = make(chan offered, 1<<16)
	go func() { // ends with the process
		defer close(i.events)
		defer func() { _ = body.Close() }()
		lines := bufio.NewScanner(body)
		for lines.Scan() {
			var e struct{ Type, Name string }
			if json.Unmarshal(lines.Bytes(), &e) == nil && e.Type == "put" {
				i.events <- offered{e.Name, time.Now()}
			}
		}
	}()
	return nil
}

// open returns the body of a page of the process.
func (p *plane) open(ctx context.Context, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://penstock"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := p.api.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s: %s", path, resp.Status)
	}
	return resp.Body, nil
}

// join makes simulated members and the importer members of each other.
func (i *importer) join(members []*simulatedMember) error {
	for _, m := range members {
		m.federation.SetMembers([]federation.Member{
			{Name: i.self.Name, Address: i.self.Peer.Address, Bundle: []byte(i.self.Peer.Bundle)},
		})
	}
	return writeClusterSet(i.files, i.self.Name, members)
}

// wait returns when the importer's store has a number of different Offers since the last call, and
// the time of the last one.
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
