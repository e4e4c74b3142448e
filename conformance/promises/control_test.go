//go:build lab && linux

package promises

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
	"github.com/penstock-project/penstock/xds/resource"
)

const withClientCA = `[
 {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--xds-client-ca=/etc/penstock/client-ca/ca.crt"},
 {"op": "add", "path": "/spec/template/spec/containers/0/volumeMounts/-", "value": {"name": "client-ca", "mountPath": "/etc/penstock/client-ca", "readOnly": true}},
 {"op": "add", "path": "/spec/template/spec/volumes/-", "value": {"name": "client-ca", "configMap": {"name": "clients"}}}
]`

// A changed setting replaces all processes of Penstock under load. With clientCA, a proxy attaches
// to the Gateway that names the subject of its certificate. Other certificates are denied.
func rolloutAndCertificates(p place) {
	p.apply(chat + plainGateway)
	t := p.load(p.programmed("gw")[0])
	authority := newClient(p, nil, "clients", time.Hour)
	p.apply(
		fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: %s, name: clients}\ndata: {ca.crt: %q}\n",
			system, authority.pem()))
	if _, err := p.AppsV1().Deployments(system).Patch(p.Context(), "penstock", types.JSONPatchType,
		[]byte(withClientCA), metav1.PatchOptions{}); err != nil {
		p.Fatal(err)
	}
	p.RolledOut(system, "penstock")
	processes := p.processes()
	p.end(t)

	p.apply(strings.NewReplacer("name: gw", "name: far", "serviceAccounts: [mine]",
		"subjects: [edge.example.com]").Replace(attached))
	address := processes[0].Status.PodIP + ":18000"
	p.Until("the certificate is accepted", func(context.Context) error {
		_, err := p.askWith(address, p.with(newClient(p, authority, "edge.example.com", time.Hour)), resource.Listener)
		return err
	})
	for who, client := range map[string]*client{
		"another subject": newClient(p, authority, "other.example.com", time.Hour),
		"another CA":      newClient(p, nil, "edge.example.com", time.Hour),
	} {
		if answer, err := p.askWith(address, p.with(client), resource.Listener); err == nil {
			p.Errorf("%s received an answer, want none: %v", who, answer)
		} else if c := status.Code(err); c != codes.PermissionDenied && c != codes.Unavailable {
			// Unavailable: the TLS handshake failed
			p.Errorf("%s: got %v, want PermissionDenied or Unavailable", who, err)
		}
	}
}

type client struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newClient makes a client with a certificate for a name and a lifetime. by signs the certificate;
// nil means self-signed.
func newClient(p place, by *client, name string, life time.Duration) *client {
	p.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(life),
		DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: by == nil,
		BasicConstraintsValid: true,
	}
	template.Subject.CommonName = name
	out := &client{key: key}
	if by == nil {
		by = &client{cert: template, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err == nil {
		out.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		p.Fatal(err)
	}
	return out
}

func (c *client) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw}))
}

func (p place) with(c *client) []grpc.DialOption {
	p.Helper()
	return certified(p.authorities(), c)
}

// certified returns dial options: the client trusts the CAs in authorities (PEM), and presents the
// certificate of c.
func certified(authorities []byte, c *client) []grpc.DialOption {
	return []grpc.DialOption{grpc.WithTransportCredentials(transport(authorities, c))}
}

// Penstock loses its permissions, and then its processes are killed. The new processes can read
// nothing. Traffic continues, and everything recovers with the permissions.
func permissionsRevoked(p place) {
	p.apply(chat + plainGateway)
	address := p.programmed("gw")[0]
	t := p.load(address, "/health")
	bindings := p.RbacV1().ClusterRoleBindings()
	binding, err := bindings.Get(p.Context(), "penstock", metav1.GetOptions{})
	if err != nil {
		p.Fatal(err)
	}
	processes := p.processes()
	if err := bindings.Delete(p.Context(), binding.Name, metav1.DeleteOptions{}); err != nil {
		p.Fatal(err)
	}
	restore := sync.OnceFunc(func() {
		binding.ResourceVersion, binding.UID = "", ""
		if _, err := bindings.Create(context.Background(), binding, metav1.CreateOptions{}); err != nil {
			p.Error(err)
		}
	})
	p.Cleanup(restore)
	for _, process := range processes {
		p.kill(process)
	}
	for _, process := range processes {
		p.Until(process.Name+" has restarted and can read nothing", func(ctx context.Context) error {
			pod, err := p.CoreV1().Pods(system).Get(ctx, process.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if c := pod.Status.ContainerStatuses[0]; c.RestartCount ==
				process.Status.ContainerStatuses[0].RestartCount || c.State.Running == nil ||
				labtest.Ready(pod.Status) {
				return errors.New("it has not restarted")
			}
			log, err := p.PodLog(ctx, system, pod.Name, "", false)
			if err == nil && !strings.Contains(log, "forbidden") {
				err = errors.New("its log has no forbidden request yet")
			}
			return err
		})
	}
	p.answers("http://" + address + "/health")
	restore()
	p.processes()
	p.apply(strings.ReplaceAll(plainGateway, "name: gw", "name: later"))
	p.programmed("later")
	p.end(t)
}
