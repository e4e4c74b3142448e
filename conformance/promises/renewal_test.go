//go:build lab && linux

package promises

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// successor is a CA that replaces Penstock's. The test stores it as Penstock does, with any age.
type successor struct {
	key    *ecdsa.PrivateKey
	keyPEM []byte
}

func newSuccessor(p place) *successor {
	p.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		p.Fatal(err)
	}
	return &successor{key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}
}

// aged returns a certificate of the CA with the given age. All these certificates have the same
// name and key, so a client that trusts one of them trusts all.
func (s *successor) aged(p place, age time.Duration) []byte {
	p.Helper()
	made := time.Now().Add(-age)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(made.UnixNano()), Subject: pkix.Name{CommonName: "penstock successor"},
		NotBefore: made.Add(-time.Hour), NotAfter: made.AddDate(1, 0, 0), // clocks may differ by an hour
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, s.key.Public(), s.key)
	if err != nil {
		p.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func (s *successor) become(p place, age time.Duration) []byte {
	p.Helper()
	cert := s.aged(p, age)
	p.Until("the Secret of the CA is written", func(ctx context.Context) error {
		ca, err := p.CoreV1().Secrets(system).Get(ctx, "penstock-ca", metav1.GetOptions{})
		if err != nil {
			return err
		}
		ca.Data["next.crt"], ca.Data["next.key"] = cert, s.keyPEM
		_, err = p.CoreV1().Secrets(system).Update(ctx, ca, metav1.UpdateOptions{})
		return err
	})
	return cert
}

// pickKey returns the key that a Gateway's proxies send to the picker once they have the new CA's
// keys.
func (s *successor) pickKey(gateway string) string {
	mac := hmac.New(sha256.New, s.keyPEM)
	mac.Write([]byte("picker"))
	return model.PickKey(hex.EncodeToString(mac.Sum(nil)), gateway)
}

// A new CA replaces Penstock's: the steps of two days, in minutes. No process restarts, no request
// is lost, and every proxy stays connected.
func certificatesRenewed(p place) {
	p.apply(chat + plainGateway)
	address := p.programmed("gw")[0]
	t := p.load(address)
	processes := p.processes()
	next := newSuccessor(p)
	each := func(what string, f func(ip string) error) {
		p.Helper()
		for _, process := range processes {
			p.Until(what+" at "+process.Name, func(context.Context) error { return f(process.Status.PodIP) })
		}
	}

	// First, all processes and proxies begin to trust the new CA.
	young := next.become(p, 0)
	each("its keys are accepted", func(ip string) error {
		if _, err := p.pick(ip+":9002", next.pickKey(p.Namespace+"/gw")); status.Code(err) == codes.Unauthenticated {
			return err
		}
		return nil
	})
	proxy, err := p.pods(p.Context(), p.Namespace, envoys("gw"))
	if err != nil || len(proxy) != 1 {
		p.Fatalf("proxies: got %s %v, want 1", podNames(proxy), err)
	}
	bundle := fmt.Sprintf("/proc/%d/root/etc/penstock/ca.crt", p.Process(proxy[0], "/etc/penstock/bootstrap.yaml"))
	p.Until("the proxy trusts the new CA", func(context.Context) error {
		text, err := os.ReadFile(bundle)
		if err == nil && !bytes.Contains(text, young) {
			err = errors.New("the new CA is not in its bundle")
		}
		return err
	})

	// After half a day, proxies receive the new CA's keys.
	next.become(p, 13*time.Hour)
	token := p.token(fleet, "penstock.dev")
	each("proxies receive its keys", func(ip string) error {
		answer, err := p.ask(ip+":18000", token, resource.Secret, model.OwnKey)
		if raw, _ := proto.Marshal(answer); err == nil &&
			!bytes.Contains(raw, []byte(next.pickKey(p.Namespace+"/gw"))) {
			err = errors.New("the key is another one")
		}
		return err
	})

	// After a day, the new CA signs certificates.
	old := next.become(p, 25*time.Hour)
	each("its certificate is served", func(ip string) error {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(old)
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", ip+":18000",
			&tls.Config{RootCAs: pool, ServerName: "penstock." + system + ".svc"})
		if err != nil {
			return err
		}
		return conn.Close()
	})
	p.end(t)

	now := p.processes()
	for _, pod := range now {
		if n := pod.Status.ContainerStatuses[0].RestartCount; n > 0 ||
			pod.Name != processes[0].Name && pod.Name != processes[1].Name {
			p.Errorf("process %s was started %d times, want once, and the same two processes", pod.Name, n+1)
		}
	}
	// A new Gateway is programmed, too: the processes exchange ACKs, with certificates of the new
	// CA.
	p.apply(strings.ReplaceAll(plainGateway, "name: gw", "name: later"))
	p.programmed("later")
}
