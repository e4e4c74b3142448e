package expiry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

func issued(t *testing.T, name string, ends time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: ends.Add(-365 * 24 * time.Hour), NotAfter: ends,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func secret(name, chain, authorities string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Data:       map[string][]byte{corev1.TLSCertKey: []byte(chain), caEntry: []byte(authorities)},
	}
}

func texts(reports []report.Report) (all []string) {
	for _, r := range reports {
		for _, f := range r.Findings {
			all = append(all, f.String())
		}
	}
	return all
}

func TestCertificates_EndOfEachOfAChainAndOfAuthoritiesIsAFinding(t *testing.T) {
	now, day := time.Now(), 24*time.Hour
	s := store.New()
	long := issued(t, "long", now.Add(90*day))
	if _, err := s.Apply(
		store.Secrets.Put(secret("leaf", issued(t, "leaf", now.Add(-day))+long, "")),
		store.Secrets.Put(secret("intermediate", long+issued(t, "between", now.Add(-day)), "")),
		store.Secrets.Put(secret("soon", issued(t, "soon", now.Add(13*day)), "")),
		store.Secrets.Put(secret("good", long, long)),
		store.Secrets.Put(secret("rubbish", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
			strings.Repeat("x", maxBytes+1))),
		store.ConfigMaps.Put(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "roots"},
			Data:       map[string]string{caEntry: long + issued(t, "root", now.Add(-day))},
		}),
	); err != nil {
		t.Fatal(err)
	}
	got := texts(Check(s.View(), now))
	for i, want := range []string{
		`ConfigMap ns/roots data[ca.crt]: the certificate of "root" (number 2) has ended on `,
		`Secret ns/intermediate data[tls.crt]: the certificate of "between" (number 2) has ended on `,
		`Secret ns/leaf data[tls.crt]: the certificate of "leaf" (number 1) has ended on `,
		`Secret ns/soon data[tls.crt]: the certificate of "soon" (number 1) ends on `,
	} {
		if len(got) != 4 || !strings.Contains(got[i], want) {
			t.Fatalf("findings\n%s\nwant four, and number %d with %s", strings.Join(got, "\n"), i+1, want)
		}
	}
}

type board struct {
	mu   sync.Mutex
	last []string
}

func (b *board) Replace(_ string, reports ...report.Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = texts(reports)
}

func (b *board) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.last)
}

// A certificate gets its finding by the passage of time alone, and loses it when it is renewed.
func TestCertificates_FindingsComeWithTimeAndGoWithRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b, registry := store.New(), &board{}, prometheus.NewRegistry()
		k := New(b, registry)
		go func() { _ = k.Run(t.Context()) }()
		put := func(ends time.Duration) {
			rev, err := s.Apply(
				store.Secrets.Put(secret("tls", issued(t, "chat.example.com", time.Now().Add(ends)), "")))
			if err != nil {
				t.Fatal(err)
			}
			k.Follow(s.View(), rev.Changes)
			synctest.Wait()
		}
		put(30 * 24 * time.Hour)
		if got := b.lines(); len(got) != 0 {
			t.Fatalf("a month before the end: got %q, want no finding", got)
		}
		time.Sleep(16*24*time.Hour + time.Minute) // in virtual time
		synctest.Wait()
		if got := b.lines(); len(got) != 1 || !strings.Contains(got[0], "ends on") {
			t.Fatalf("two weeks before the end: got %q, want ends on", got)
		}
		time.Sleep(14 * 24 * time.Hour)
		synctest.Wait()
		if got := b.lines(); len(got) != 1 || !strings.Contains(got[0], "has ended on") {
			t.Fatalf("after the end: got %q, want has ended on", got)
		}
		var gauge dto.Metric
		if err := k.ended.WithLabelValues("ended").Write(&gauge); err != nil || gauge.GetGauge().GetValue() != 1 {
			t.Errorf("penstock_certificates_ending has %v that have ended, %v; want 1", gauge.GetGauge().GetValue(),
				err)
		}
		put(90 * 24 * time.Hour)
		if got := b.lines(); len(got) != 0 {
			t.Errorf("after the renewal: got %q, want no finding", got)
		}
	})
}
