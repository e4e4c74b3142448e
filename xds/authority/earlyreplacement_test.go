package authority_test

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/xds/authority"
)

func trusts(bundle []byte, cert *tls.Certificate) bool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: time.Now()})
	return err == nil
}

func presents(t *testing.T, a *authority.Authority) *tls.Certificate {
	t.Helper()
	cert, err := a.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// During the rotation, replicas and proxies that get each bundle and key 25 minutes late must trust
// each other. Then everything that the leaked key signed or derived must be rejected.
func TestRotate_LateProxiesLoseNothingAndTheOldKeyIsWorthless(t *testing.T) {
	const overlap, late = time.Hour, 25
	synctest.Test(t, func(t *testing.T) {
		secrets := &secret{}
		a, b := start(t, secrets, 20*time.Second), start(t, secrets, 20*time.Second)
		for _, x := range []*authority.Authority{a, b} {
			if err := x.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(24 * time.Hour)
		stolen, key := presents(t, a), a.Keys("picker")[0]
		rotated, err := authority.Rotate(t.Context(), secrets, time.Now(), overlap)
		if err != nil {
			t.Fatal(err)
		}
		if rotated.Signs != time.Now().Add(overlap) || rotated.Ends != time.Now().Add(2*overlap) {
			t.Errorf("got %+v, want it to sign after %v and to end after twice that", rotated, overlap)
		}
		bundles, keys := [][]byte{a.Bundle()}, []string{key}
		for range 5 * 60 {
			time.Sleep(time.Minute)
			synctest.Wait()
			verify(t, a, bundles[0])
			verify(t, b, bundles[0])
			if !trusts(a.Bundle(), presents(t, b)) || !trusts(b.Bundle(), presents(t, a)) {
				t.Fatal("replicas do not trust each other")
			}
			if !slices.Contains(b.Keys("picker"), keys[0]) {
				t.Fatal("the key of a proxy is denied")
			}
			bundles, keys = append(bundles, a.Bundle()), append(keys, a.Keys("picker")[0])
			bundles, keys = bundles[max(0, len(bundles)-late):], keys[max(0, len(keys)-late):]
		}
		for _, x := range []*authority.Authority{a, b} {
			if trusts(x.Bundle(), stolen) || slices.Contains(x.Keys("picker"), key) {
				t.Error("what the old key signed, or is derived from it, counts still")
			}
			if n := strings.Count(string(x.Bundle()), "BEGIN"); n != 1 {
				t.Errorf("%d authorities are trusted, want 1", n)
			}
		}
		for name := range secrets.get() {
			if strings.HasPrefix(name, "rotation") {
				t.Errorf("%s is left", name)
			}
		}
	})
}

// The Secret with the leaked key also has the next authority's key, which must never sign.
func TestRotate_AuthorityThatWasToComeNeverSigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets := &secret{}
		a := start(t, secrets, time.Hour)
		if err := a.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		for secrets.get()["next.crt"] == nil {
			time.Sleep(time.Hour)
		}
		stolen := string(secrets.get()["next.crt"])
		if _, err := authority.Rotate(t.Context(), secrets, time.Now(), 12*time.Hour); err != nil {
			t.Fatal(err)
		}
		for range 3 * 24 {
			time.Sleep(time.Hour)
			if strings.Contains(string(secrets.get()["tls.crt"]), stolen) {
				t.Fatal("it signs")
			}
		}
		if strings.Contains(string(a.Bundle()), stolen) {
			t.Error("it is trusted")
		}
	})
}

// Processes that start after the rotation may meet certificates of the previous authority.
func TestRotate_WithoutProcessesTheOverlapBeginsWithThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets := &secret{}
		a := start(t, secrets, time.Hour)
		if err := a.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		old := presents(t, a)
		away := &secret{} // a does not read this Secret
		away.set(func(map[string][]byte) map[string][]byte { return secrets.get() })
		if _, err := authority.Rotate(t.Context(), away, time.Now(), time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * 24 * time.Hour)
		b := start(t, away, time.Minute)
		if err := b.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Minute)
		if !trusts(b.Bundle(), old) {
			t.Error("the authority before is not trusted any more")
		}
		time.Sleep(20 * time.Minute)
		if trusts(b.Bundle(), old) {
			t.Error("the authority before is trusted still")
		}
	})
}

func TestRotate_WithoutAnAuthorityIsAnError(t *testing.T) {
	if _, err := authority.Rotate(t.Context(), &secret{}, time.Now(), time.Hour); !authority.ErrNone(err) {
		t.Errorf("got %v, want the error that there is no authority", err)
	}
}
