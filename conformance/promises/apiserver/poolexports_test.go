//go:build lab

package apiserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/registry"
)

var poolExportKind = schema.GroupVersionResource{Group: "penstock.dev", Version: "v1alpha1", Resource: "poolexports"}

type member struct {
	*federation.Federation
	address string
	bundle  string // in PEM

	mu     sync.Mutex
	placed int // number of exports whose state the other cluster has reported
}

func newMember(t *testing.T, name string) *member {
	t.Helper()
	sign := func(template, parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if by == nil {
			by = key
		}
		template.SerialNumber = big.NewInt(time.Now().UnixNano())
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
		if err != nil {
			t.Fatal(err)
		}
		return der, key
	}
	top := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	root, rootKey := sign(top, top, nil)
	ca, err := x509.ParseCertificate(root)
	if err != nil {
		t.Fatal(err)
	}
	leaf, key := sign(&x509.Certificate{
		KeyUsage: x509.KeyUsageDigitalSignature, URIs: []*url.URL{
			{Scheme: "spiffe", Host: name, Path: federation.ProcessPath},
		},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, ca, rootKey)
	certificate := &tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: key}
	m := &member{bundle: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root}))}
	m.Federation = federation.New(federation.Config{
		Certificate: func() (*tls.Certificate, error) { return certificate, nil },
		Apply:       func(...registry.Update) bool { return true }, Connected: func(string, bool) {},
		Placed: func(r registry.Reports) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.placed += len(r.Placed)
		},
	})
	m.Publish("uid-of-"+name, 1, time.Now())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.address = l.Addr().String()
	server := grpc.NewServer(m.ServerOptions()...)
	m.Register(server)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { _ = server.Serve(l) }() // ends with Stop
	go func() { _ = m.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); server.Stop(); <-ended })
	return m
}

func (m *member) exports(t *testing.T, pools []string) {
	t.Helper()
	var list []export.Export
	for _, p := range pools {
		namespace, name, _ := objectid.Split(p)
		list = append(list,
			export.Export{Pool: objectid.Pool{Namespace: namespace, Name: name}, Entry: inferenceapi.ImportedCluster{
				RoutingMode: inferenceapi.ParentMode,
				Parents: []inferenceapi.ParentImport{{Service: inferenceapi.ServiceImports{{
					Addresses: []string{"192.0.2.1"}, Ports: []inferenceapi.Port{{Number: 443, AppProtocol: "https"}},
				}}}},
			}})
	}
	if err := m.SetExports(list, false); err != nil {
		t.Fatal(err)
	}
}

// objects returns the names of all PoolExports or imports ("namespace/name"), sorted.
func (s *server) objects(ctx context.Context, kind schema.GroupVersionResource) (names []string, err error) {
	list, err := s.client.Resource(kind).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, o := range list.Items {
		names = append(names, o.GetNamespace()+"/"+strings.TrimSuffix(o.GetName(), ".west"))
	}
	slices.Sort(names)
	return names, nil
}

func (s *server) hasExactly(t *testing.T, what string, want ...string) {
	t.Helper()
	for _, kind := range []schema.GroupVersionResource{poolExportKind, importKind} {
		labtest.Until(t, what, func(ctx context.Context) error {
			got, err := s.objects(ctx, kind)
			if err == nil && !slices.Equal(got, want) {
				err = fmt.Errorf("%d %s, %q, want %q", len(got), kind.Resource, got[:min(len(got), 30)], want)
			}
			return err
		})
	}
}

// If a member publishes ten thousand exports, this cluster has no more objects for the member than
// the ClusterSet allows. A lower limit removes objects.
func TestPoolExport_MemberHasNoMoreObjectsThanItIsAllowed(t *testing.T) {
	s := start(t)
	s.install(t, "*")
	const namespaces, each = 20, 500
	var pools []string
	for n := range namespaces {
		s.create(t, "namespaces", fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: team-%02d}}", n))
		for i := range each {
			pools = append(pools, fmt.Sprintf("team-%02d/pool-%03d", n, i))
		}
	}
	s.create(t, "namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: zz}}")
	pools = pools[1:] // a member has room for 10,000, and exports one more later
	west := newMember(t, "west")
	allow := func(text string) {
		t.Helper()
		s.applySet(t, "kubectl",
			fmt.Sprintf(
				"{cluster: east, createNamespaces: true, members: [{name: west, allow: %s, peer: {address: %q, "+
					"bundle: %q}}]}", text, west.address, west.bundle))
	}
	allow("{namespaces: [team-07], pools: [team-03/pool-001, zz/last], exports: 20}")
	dir, http := filepath.Join(t.TempDir(), "east"), port(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	launch(t, dir, "penstock", "../../../bin/penstock", "serve", "--kubeconfig", s.kubeconfig(t), "--state",
		filepath.Join(dir, "state"),
		"--picker", "127.0.0.1:0", "--http", http, "--members-listen", port(t))
	labtest.Until(t, "the cluster shows how it is joined", func(context.Context) error {
		var self []v1alpha1.ClusterSetMember
		out := clustersCommand(t, "show", "--http", http)
		if err := yaml.Unmarshal([]byte(out), &self); err != nil || len(self) != 1 || self[0].Peer == nil {
			return errors.Join(err, errors.New(out))
		}
		west.SetMembers(
			[]federation.Member{{Name: "east", Address: self[0].Peer.Address, Bundle: []byte(self[0].Peer.Bundle)}})
		return nil
	})
	west.exports(t, pools)
	labtest.Until(t, "the member gets reports on its exports", func(context.Context) error {
		west.mu.Lock()
		defer west.mu.Unlock()
		if west.placed < len(pools) {
			return fmt.Errorf("reports: got %d, want %d", west.placed, len(pools))
		}
		return nil
	})
	has := func(what string, want ...string) { t.Helper(); s.hasExactly(t, what, want...) }
	first := []string{"team-03/pool-001"}
	for i := range 19 {
		first = append(first, fmt.Sprintf("team-07/pool-%03d", i))
	}
	has("as many as it may have", first...)
	labtest.Until(t, "the record of the member has when it began", func(ctx context.Context) error {
		u, err := s.client.Resource(clusterSets).Get(ctx, "gpus", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if status := fmt.Sprint(u.Object["status"]); !strings.Contains(status, "started:20") {
			return errors.New(status)
		}
		return nil
	})
	// Records are written in the order of their names, in batches.
	allow("{pools: [team-03/pool-001, zz/last]}")
	west.exports(t, append(pools, "zz/last"))
	has("the ones that the ClusterSet still names, and a new one", "team-03/pool-001", "zz/last")
	allow("{exports: 20}")
	has("nothing is allowed")
	allow("{pools: [team-19/pool-499]}")
	has("another one", "team-19/pool-499")
}
