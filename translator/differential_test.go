package translator_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/graph"
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

// proxyWorld accumulates a translator's outputs.
type proxyWorld struct {
	Resources map[string]map[resource.Ref]string // gateway -> resource -> version and owners
	Reports   map[report.Ref]report.Report
	Pools     map[objectid.Target]translator.PickerPool
	Pickers   map[model.ClusterID]model.ExternalPicker

	refs map[gatewayRef][]resource.Ref // references of each resource
}

type gatewayRef struct {
	gateway string
	ref     resource.Ref
}

// dangling describes a resource that references a missing resource of its Gateway; "" if all exist.
func (w *proxyWorld) dangling() string {
	for gw, resources := range w.Resources {
		for ref := range resources {
			for _, named := range w.refs[gatewayRef{gw, ref}] {
				if named.Type == resource.VirtualHost { // a hop is a virtual host in a route configuration
					routes := resource.Ref{Type: resource.RouteConfiguration, Name: model.HopListener}
					if !slices.Contains(w.refs[gatewayRef{gw, routes}], named) {
						return fmt.Sprintf("%v of gateway %s names %v, which its routes do not have", ref, gw, named)
					}
					continue
				}
				if _, ok := resources[named]; !ok {
					return fmt.Sprintf("%v of gateway %s names %v, which proxies do not have", ref, gw, named)
				}
			}
		}
	}
	return ""
}

func newProxyWorld() *proxyWorld {
	return &proxyWorld{map[string]map[resource.Ref]string{}, map[report.Ref]report.Report{},
		map[objectid.Target]translator.PickerPool{}, map[model.ClusterID]model.ExternalPicker{},
		map[gatewayRef][]resource.Ref{}}
}

func (w *proxyWorld) add(t *testing.T, out translator.Output) {
	t.Helper()
	if out.Err != nil {
		t.Fatalf("got %v, want no error of translation", out.Err)
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
			w.refs[gatewayRef{d.Gateway, r.Ref}] = r.Refs
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

// TestTranslator_IncrementalEqualsFresh verifies the incremental engine. After each change of a
// random sequence, the accumulated outputs must equal a fresh translation of the whole store. In
// every second sequence, objects of some kinds are read on demand and arrive late. Then the outputs
// must be equal once all objects have arrived, and before that no resource may reference a missing
// one. PENSTOCK_SEQUENCES sets the number of sequences, and PENSTOCK_SEED the first seed.
func TestTranslator_IncrementalEqualsFresh(t *testing.T) {
	sequences, first := number("PENSTOCK_SEQUENCES", 2000), number("PENSTOCK_SEED", 1)
	certs := [2][2][]byte{keyPair(t, "a.com"), keyPair(t, "x.a.com")}
	const shares = 4
	for share := range shares {
		t.Run(strconv.Itoa(share), func(t *testing.T) {
			t.Parallel()
			for seed := first + share; seed < first+sequences; seed += shares {
				sequence(t,
					&chaos{rand.New(rand.NewPCG(uint64(seed), 0)), rand.New(rand.NewPCG(uint64(seed), 1)), certs}, seed)
			}
		})
	}
}

func sequence(t *testing.T, c *chaos, seed int) {
	s := store.New()
	cfg, late := config(), demands{}
	if seed%2 == 1 {
		// as on Kubernetes
		cfg.OnDemand, cfg.Slices = []string{"Secret", "ConfigMap", "Pod", "EndpointSlice"}, true
	}
	incremental, sum := translator.New(cfg), newProxyWorld()
	update := func(view *store.View, changes []store.Change, arrived []graph.Key) {
		for ok := true; ok; ok = len(arrived) > 0 {
			out := incremental.Update(view, changes, arrived...)
			changes, arrived = nil, late.note(out)
			sum.add(t, out)
		}
	}
	batch := 25
	for step := range 10 {
		var ops []store.Op
		for range batch {
			ops = append(ops, c.op())
		}
		if step == 0 && seed%4 < 2 {
			ops = append(ops, c.tenants()...)
		}
		batch = 1 + c.IntN(4)
		rev, err := s.Apply(ops...)
		if err != nil {
			t.Fatal(err)
		}
		view := s.View()
		update(view, rev.Changes, late.arrive(c.Rand, 2))
		if step == 0 && len(cfg.OnDemand) > 0 {
			incremental.WaitForDemands()
			clear(late)
		}
		if text := sum.dangling(); text != "" {
			t.Fatalf("PENSTOCK_SEED=%d, step %d: while %v are waited for: %s, want no dangling reference",
				seed, step, late, text)
		}
		if len(late) > 0 && step%3 > 0 {
			continue
		}
		for len(late) > 0 {
			update(view, nil, late.arrive(c.Rand, 1))
		}
		fresh, want := translator.New(cfg), newProxyWorld() // reads all kinds at once
		want.add(t, fresh.Update(view, store.Everything(view)))
		if diff := cmp.Diff(want, sum, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
			cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
			cmpopts.IgnoreUnexported(proxyWorld{})); diff != "" {
			t.Fatalf("PENSTOCK_SEED=%d, step %d (-want, fresh +got, incremental):\n%s", seed, step, diff)
		}
		for _, gw := range fresh.Gateways() {
			if !slices.EqualFunc(fresh.Resources(gw), incremental.Resources(gw), (*resource.Resource).Equal) {
				t.Fatalf("PENSTOCK_SEED=%d, step %d: bytes of gateway %s differ, want fresh and incremental equal",
					seed, step, gw)
			}
		}
	}
}

type demands map[graph.Key]bool

// note adds the keys that an update began to read. It returns the keys that arrive at once, because
// discovery/kube watches every EndpointSlice.
func (d demands) note(out translator.Output) (arrived []graph.Key) {
	for _, k := range out.Wanted {
		if k.Table == store.EndpointSlices.Kind() {
			arrived = append(arrived, k)
		} else {
			d[k] = true
		}
	}
	for _, k := range out.Unwanted {
		delete(d, k)
	}
	return arrived
}

// arrive removes and returns each key with probability 1/oneIn.
func (d demands) arrive(rng *rand.Rand, oneIn int) (keys []graph.Key) {
	for _, k := range slices.SortedFunc(maps.Keys(d), graph.Key.Compare) {
		if rng.IntN(oneIn) == 0 {
			keys = append(keys, k)
			delete(d, k)
		}
	}
	return keys
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
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host},
		NotAfter: time.Now().Add(time.Hour)}
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
