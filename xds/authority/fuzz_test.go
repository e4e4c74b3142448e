package authority

import (
	"bytes"
	"crypto/x509"
	"testing"
	"time"
)

// Only a Secret with matching keys and valid certificates may be read, and must be written back
// unchanged.
func FuzzState_ReadOnlyWhole(f *testing.F) {
	one, err := newSigner(time.Unix(0, 0), time.Minute, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	two, err := newSigner(time.Unix(0, 0), time.Minute, 2*time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(one.certPEM, one.keyPEM, []byte(nil), []byte(nil), []byte(nil))
	f.Add(one.certPEM, one.keyPEM, two.certPEM, two.keyPEM, one.certPEM)
	f.Add(one.certPEM, two.keyPEM, two.certPEM, one.keyPEM, two.keyPEM)
	f.Add(append([]byte("text\n"), one.certPEM...), one.keyPEM, []byte("x"), []byte(nil),
		append(bytes.Clone(one.certPEM), two.certPEM...))
	f.Add(append(bytes.Clone(one.certPEM), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"...),
		one.keyPEM, []byte(nil), two.keyPEM, bytes.TrimSpace(one.certPEM))
	f.Add([]byte(nil), []byte(nil), []byte(nil), []byte(nil), []byte(nil))
	f.Fuzz(func(t *testing.T, cert, key, nextCertPEM, nextKeyPEM, previous []byte) {
		data := map[string][]byte{currentCert: cert, currentKey: key, nextCert: nextCertPEM, nextKey: nextKeyPEM,
			previousCert: previous}
		s, err := read(data)
		if err != nil {
			return
		}
		var want [][]byte
		for _, a := range []*signer{s.current, s.next, s.previous} {
			if a == nil {
				continue
			}
			if a != s.previous && !a.key.PublicKey.Equal(a.cert.PublicKey) {
				t.Error("the key is not the certificate's")
			}
			want = append(want, a.cert.Raw)
		}
		pool, reference := x509.NewCertPool(), x509.NewCertPool()
		pool.AppendCertsFromPEM(s.bundle())
		for _, der := range want {
			c, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatal(err)
			}
			reference.AddCert(c)
		}
		if !pool.Equal(reference) {
			t.Errorf("proxies trust others than the %d authorities, want these alone:\n%s", len(want), s.bundle())
		}
		again, err := read(s.write())
		if err != nil || !bytes.Equal(again.bundle(), s.bundle()) {
			t.Errorf("written and read again: got %v, want an equal bundle", err)
		}
	})
}
