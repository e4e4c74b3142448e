package featuretests

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"
)

func certificate(t *testing.T, host string) (secret, ca string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, IsCA: true,
		BasicConstraintsValid: true,
		NotAfter:              time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	encode := base64.StdEncoding.EncodeToString
	secret = fmt.Sprintf(
		"apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {name: cert}\ndata:\n  tls.crt: %s\n  "+
			"tls.key: %s",
		encode([]byte(public)), encode(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	ca = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ca}\ndata:\n  ca.crt: |\n    " +
		strings.ReplaceAll(strings.TrimSpace(public), "\n", "\n    ")
	return secret, ca
}
