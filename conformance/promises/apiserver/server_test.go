//go:build lab

package apiserver

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
	"github.com/penstock-project/penstock/manifests"
)

const tools = "../../../.tools/bin"

type server struct {
	rest   *rest.Config
	client dynamic.Interface
	audit  string // audit log of the hub's writes
	stop   func()
	ca     []byte // CA of the API server's certificate, in PEM
}

func start(t *testing.T) *server { return startAt(t, "127.0.0.1", "admin") }

// startAt is start at another address of this machine. token authenticates an administrator. The
// API server issues service account tokens as https://ADDRESS:PORT.
func startAt(t *testing.T, address, token string) *server {
	t.Helper()
	dir := t.TempDir()
	bin := func(name string) string {
		path, err := filepath.Abs(filepath.Join(tools, name))
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			t.Fatalf("no %s: run make labs (%v)", name, err)
		}
		return path
	}
	etcd, peer, secure := port(t), port(t), port(t)
	_, number, _ := net.SplitHostPort(secure)
	secure = net.JoinHostPort(address, number)
	launch(t, dir, "etcd", bin("etcd"), "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level",
		"error",
		"--listen-client-urls", "http://"+etcd, "--advertise-client-urls", "http://"+etcd, "--listen-peer-urls",
		"http://"+peer)
	write(t, filepath.Join(dir, "tokens.csv"),
		[]byte(
			token+",admin,1,system:masters\nhub,system:serviceaccount:penstock-hub:penstock-hub,2,\"system:serviceaccounts,system:authenticated\"\nstranger,stranger,3,system:authenticated\n"))
	// The audit log counts the hub's writes.
	write(t, filepath.Join(dir, "audit.yaml"),
		[]byte(
			"apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- {level: Metadata, "+
				"users: [\"system:serviceaccount:penstock-hub:penstock-hub\"], verbs: [create, update, patch, "+
				"delete]}\n- {level: None}\n"))
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "sa.key"),
		pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	// The file contains several programs. The name in os.Args[0] selects one.
	if err := os.Symlink(bin("kubernetes"), filepath.Join(dir, "kube-apiserver")); err != nil {
		t.Fatal(err)
	}
	ca := serving(t, dir, address)
	stop := launch(t, dir, "kube-apiserver", filepath.Join(dir, "kube-apiserver"), "--etcd-servers", "http://"+etcd,
		"--cert-dir", filepath.Join(dir, "certs"),
		"--secure-port", number, "--bind-address", address, "--advertise-address", "10.0.0.1",
		"--service-cluster-ip-range", "10.96.0.0/16",
		"--token-auth-file", filepath.Join(dir, "tokens.csv"), "--authorization-mode", "RBAC",
		"--disable-admission-plugins", "ServiceAccount", "--allow-privileged",
		"--service-account-key-file", filepath.Join(dir, "sa.key"), "--service-account-signing-key-file",
		filepath.Join(dir, "sa.key"),
		"--service-account-issuer", "https://"+secure, "--service-account-jwks-uri",
		"https://"+secure+"/openid/v1/jwks", "--audit-policy-file",
		filepath.Join(dir, "audit.yaml"), "--audit-log-path", filepath.Join(dir, "audit.log"),
		"--tls-cert-file", filepath.Join(dir, "tls.crt"), "--tls-private-key-file", filepath.Join(dir, "tls.key"))
	s := &server{ca: ca, audit: filepath.Join(dir, "audit.log"), stop: stop,
		rest: &rest.Config{Host: "https://" + secure, BearerToken: token, QPS: -1,
			TLSClientConfig: rest.TLSClientConfig{Insecure: true}}}
	if s.client, err = dynamic.NewForConfig(s.rest); err != nil {
		t.Fatal(err)
	}
	labtest.Until(t, "the API server", func(context.Context) error {
		_, err := s.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).
			Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	return s
}

func serving(t *testing.T, dir, address string) (ca []byte) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.ParseIP(address)},
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	write(t, filepath.Join(dir, "tls.crt"), ca)
	write(t, filepath.Join(dir, "tls.key"),
		pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	return ca
}

func port(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func write(t *testing.T, path string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// launch runs a program until the test ends or kill is called. If the test fails, launch logs the
// end of the program's output.
func launch(t *testing.T, dir, name, path string, args ...string) (kill func()) {
	t.Helper()
	logs, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = logs, logs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the error states that the process was killed
	})
	t.Cleanup(func() {
		kill()
		_ = logs.Close()
		if raw, err := os.ReadFile(logs.Name()); err == nil && t.Failed() {
			t.Logf("%s logged: %s", name, raw[max(0, len(raw)-1000):])
		}
	})
	return kill
}

func (s *server) install(t *testing.T, plurals ...string) {
	t.Helper()
	files, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		for _, plural := range plurals {
			if f.Plural == plural || plural == "*" {
				s.create(t, "customresourcedefinitions", string(f.YAML))
			}
		}
	}
}

func (s *server) create(t *testing.T, resource, text string) {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	// the API server serves a new CRD only after a moment
	labtest.Until(t, resource+" can be created", func(context.Context) error {
		_, err := s.of(u, resource).Create(t.Context(), u, metav1.CreateOptions{})
		return err
	})
}

func (s *server) of(u *unstructured.Unstructured, resource string) dynamic.ResourceInterface {
	gv, _ := schema.ParseGroupVersion(u.GetAPIVersion())
	r := s.client.Resource(gv.WithResource(resource))
	if u.GetNamespace() == "" {
		return r
	}
	return r.Namespace(u.GetNamespace())
}

// conditions returns the conditions in an object's status, at any depth, as
// "Type=Status/Reason@generation".
func (s *server) conditions(ctx context.Context, gvr schema.GroupVersionResource, name string) (map[string]bool,
	error) {
	r := dynamic.ResourceInterface(s.client.Resource(gvr))
	if gvr.Resource != "gatewayclasses" && gvr.Resource != "clustersets" {
		r = s.client.Resource(gvr).Namespace("default")
	}
	u, err := r.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if v["type"] != nil && v["reason"] != nil {
				out[fmt.Sprintf("%v=%v/%v@%v", v["type"], v["status"], v["reason"], v["observedGeneration"])] = true
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(u.Object["status"])
	return out, nil
}
