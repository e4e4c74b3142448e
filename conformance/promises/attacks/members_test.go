package attacks

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// ca is the authority of a cluster.
type ca struct {
	*testing.T
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	bundle string // in PEM
}

func newCA(t *testing.T) *ca {
	t.Helper()
	c := &ca{T: t}
	top := c.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, time.Hour)
	c.cert, _ = x509.ParseCertificate(top.Certificate[0])
	c.key, _ = top.PrivateKey.(*ecdsa.PrivateKey)
	c.bundle = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw}))
	return c
}

// sign signs a certificate that ends after some time; before c has a key, with the certificate's own.
func (c *ca) sign(template *x509.Certificate, life time.Duration) tls.Certificate {
	c.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(life)
	parent, signer := template, key
	if c.key != nil {
		parent, signer = c.cert, c.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		c.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// identity is a certificate of a SPIFFE ID, for both ends.
func (c *ca) identity(domain, path string, life time.Duration) tls.Certificate {
	c.Helper()
	return c.sign(&x509.Certificate{
		KeyUsage: x509.KeyUsageDigitalSignature, URIs: []*url.URL{{Scheme: "spiffe", Host: domain, Path: path}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, life)
}

// honest is another cluster of the set, as it should be: it exports default/good, which its gateway serves.
type honest struct {
	*ca
	listener   net.Listener
	server     *httptest.Server // its gateway
	federation *federation.Federation
}

func newHonest(t *testing.T) *honest {
	t.Helper()
	h := &honest{ca: newCA(t), server: modelServer()}
	t.Cleanup(h.server.Close)
	certificate := h.identity("good", federation.ProcessPath, time.Hour)
	h.federation = federation.New(federation.Config{
		Certificate: func() (*tls.Certificate, error) { return &certificate, nil },
		Apply:       func(...registry.Update) bool { return true }, Connected: func(string, bool) {}, Placed: func(registry.Reports) {},
	})
	h.federation.Publish("uid-of-good", 1)
	gateway := at(h.server)
	err := h.federation.SetExports([]export.Export{{Pool: registry.Pool{Namespace: "default", Name: "good"}, Entry: inferenceapi.ImportedCluster{
		Name: "good", RoutingMode: inferenceapi.ParentMode,
		Parents: []inferenceapi.ParentImport{{Service: inferenceapi.ServiceImports{{
			Addresses: []string{gateway.address}, Ports: []inferenceapi.Port{{Number: int32(gateway.port), AppProtocol: "http"}},
		}}}},
	}}}, false)
	if err != nil {
		t.Fatal(err)
	}
	h.listener = listen(t)
	server := grpc.NewServer(h.federation.ServerOptions()...)
	h.federation.Register(server)
	go func() { _ = server.Serve(h.listener) }() // ends with Stop
	t.Cleanup(server.Stop)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.federation.Run(ctx) // ends with stop
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return h
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// set is a site that is the member "east" of a cluster set, with an honest member and hostile ones. Beside default/chat it serves
// default/good, which the honest one exports, below /good.
type set struct {
	*site
	good *honest
	self v1alpha1.ClusterSetMember // as others have it
}

// startSet starts a site that is a member. more is more of the specification of its ClusterSet, and of its folder.
func startSet(t *testing.T, more string, files map[string]string, evil ...*publisher) *set {
	t.Helper()
	s := &set{good: newHonest(t)}
	s.begin(t, more, files, evil)
	s.serve("--members-listen", "127.0.0.1:0")
	s.attach()
	s.join()
	return s
}

// startSecuredSet is startSet with a control plane and an Envoy that authenticate each other.
func startSecuredSet(t *testing.T, more string) *set {
	t.Helper()
	s := &set{good: newHonest(t)}
	s.begin(t, more, nil, nil)
	serve, attach, _ := s.credentials()
	s.serve(append(serve, "--members-listen", "127.0.0.1:0")...)
	s.attach(attach...)
	s.join()
	return s
}

// begin writes the files of the site.
func (s *set) begin(t *testing.T, more string, files map[string]string, evil []*publisher) {
	t.Helper()
	member := func(name string, at net.Listener, c *ca, allow string) string {
		return fmt.Sprintf("  - name: %s\n    allow: {%s}\n    peer:\n      address: %s\n      bundle: |\n        %s\n", name, allow, at.Addr(), strings.ReplaceAll(strings.TrimSpace(c.bundle), "\n", "\n        "))
	}
	text := "apiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: set}\nspec:\n  cluster: east\n" + more + "  members:\n" + member("good", s.good.listener, s.good.ca, "namespaces: [default], cleartext: true")
	for _, p := range evil {
		text += member(p.name, p.listener, p.ca, "namespaces: [evil], podCIDRs: [10.66.0.0/16], addresses: [10.66.0.0/16], exports: 20, endpoints: 100")
	}
	all := map[string]string{"set.yaml": text, "good.yaml": importRoute("default", "good", "/good")}
	for name, text := range files {
		all[name] = text
	}
	s.site = prepare(t, all)
}

// join makes the site and the honest member members of each other.
func (s *set) join() {
	s.Helper()
	s.eventually("it is a member", func() error {
		raw, err := os.ReadFile(filepath.Join(s.dir, "state", "cluster", "member.yaml"))
		if err != nil {
			return err
		}
		var list []v1alpha1.ClusterSetMember
		if err := yaml.Unmarshal(raw, &list); err != nil || len(list) != 1 {
			return fmt.Errorf("%d members: %w", len(list), err)
		}
		s.self = list[0]
		return nil
	})
	s.good.federation.SetMembers([]federation.Member{{Name: s.self.Name, Address: s.self.Peer.Address, Bundle: []byte(s.self.Peer.Bundle)}})
	s.eventually("the pool serves", func() error { return s.ask("GET", "/v1/models", "") })
	s.eventually("the other cluster's pool serves", func() error { return s.ask("GET", "/good", "") })
}

// importRoute is an HTTPRoute to an import for everything below a path.
func importRoute(namespace, name, path string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: to-%[2]s}
spec:
  parentRefs: [{name: gw}]
  rules: [{matches: [{path: {value: %[3]s}}], backendRefs: [{group: inference.networking.x-k8s.io, kind: InferencePoolImport, namespace: %[1]s, name: %[2]s}]}]
---
`, namespace, name, path)
}

// importGrant lets routes of the namespace default lead to imports of another one.
func importGrant(namespace string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: imports, namespace: %s}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: default}]
  to: [{group: inference.networking.x-k8s.io, kind: InferencePoolImport}]
---
`, namespace)
}
