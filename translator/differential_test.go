package translator_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

func config() translator.Config {
	return translator.Config{
		Controller: "penstock.dev/gateway-controller",
		AnyClass:   true,
		Pickers:    []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9002")},
	}
}

// proxyWorld is what all of a translator's outputs so far add up to: what Envoys, picker and status would hold.
type proxyWorld struct {
	Resources map[string]map[resource.Ref]string // gateway -> resource -> version and owners
	Reports   map[report.Ref]report.Report
	Pools     map[model.PoolID]translator.PickerPool
	Pickers   map[model.ClusterID]model.ExternalPicker
}

func newProxyWorld() *proxyWorld {
	return &proxyWorld{map[string]map[resource.Ref]string{}, map[report.Ref]report.Report{}, map[model.PoolID]translator.PickerPool{}, map[model.ClusterID]model.ExternalPicker{}}
}

func (w *proxyWorld) add(t *testing.T, out translator.Output) {
	t.Helper()
	if out.Err != nil {
		t.Fatalf("translation made something that it should not have: %v", out.Err)
	}
	for _, d := range out.Deltas {
		if d.Gone {
			delete(w.Resources, d.Gateway)
			continue
		}
		if w.Resources[d.Gateway] == nil {
			w.Resources[d.Gateway] = map[resource.Ref]string{}
		}
		for _, r := range d.Upserts {
			w.Resources[d.Gateway][r.Ref] = fmt.Sprint(r.Version, r.Owners(), r.Refs)
		}
		for _, ref := range d.Removes {
			delete(w.Resources[d.Gateway], ref)
		}
	}
	for _, ref := range out.ReportsGone {
		delete(w.Reports, ref)
	}
	for _, rep := range out.Reports {
		w.Reports[rep.Owner] = rep
	}
	for _, p := range out.PoolsGone {
		delete(w.Pools, p)
	}
	for _, p := range out.Pools {
		w.Pools[p.Pool.Name] = p
	}
	for _, name := range out.PickersGone {
		delete(w.Pickers, name)
	}
	for _, p := range out.Pickers {
		w.Pickers[p.Cluster] = p
	}
}

// TestTranslator_IncrementalEqualsFresh is the proof of the incremental engine: after each change of a random sequence over all
// kinds, what was sent so far adds up to exactly what a fresh translation makes of the whole store.
// PENSTOCK_SEQUENCES sets how many sequences; PENSTOCK_SEED starts at another seed.
func TestTranslator_IncrementalEqualsFresh(t *testing.T) {
	sequences, first := number("PENSTOCK_SEQUENCES", 2000), number("PENSTOCK_SEED", 1)
	certs := [2][2][]byte{keyPair(t, "a.com"), keyPair(t, "x.a.com")}
	const shares = 4
	for share := range shares {
		t.Run(strconv.Itoa(share), func(t *testing.T) {
			t.Parallel()
			for seed := first + share; seed < first+sequences; seed += shares {
				sequence(t, &chaos{rand.New(rand.NewPCG(uint64(seed), 0)), certs}, seed)
			}
		})
	}
}

// sequence starts with a world of some objects and changes it ten times.
func sequence(t *testing.T, c *chaos, seed int) {
	s := store.New()
	incremental, sum := translator.New(config()), newProxyWorld()
	batch := 25
	for step := range 10 {
		var ops []store.Op
		for range batch {
			ops = append(ops, c.op())
		}
		batch = 1 + c.IntN(4)
		rev, err := s.Apply(ops...)
		if err != nil {
			t.Fatal(err)
		}
		view := s.View()
		sum.add(t, incremental.Update(view, rev.Changes))
		fresh, want := translator.New(config()), newProxyWorld()
		want.add(t, fresh.Update(view, store.Everything(view)))
		if diff := cmp.Diff(want, sum, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
			t.Fatalf("PENSTOCK_SEED=%d, step %d: incremental differs from fresh (-fresh +incremental):\n%s", seed, step, diff)
		}
		for _, gw := range fresh.Gateways() {
			if !slices.EqualFunc(fresh.Resources(gw), incremental.Resources(gw), (*resource.Resource).Equal) {
				t.Fatalf("PENSTOCK_SEED=%d, step %d: bytes of gateway %s differ", seed, step, gw)
			}
		}
	}
}

func number(env string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(env)); err == nil {
		return n
	}
	return otherwise
}

func keyPair(t *testing.T, host string) [2][]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(crand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return [2][]byte{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}
}
