package certificates

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

const pairs = 150

func corpus(t *testing.T, k keys, seed uint64) (out []sample) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	kinds := slices.Sorted(slices.Values(k.kinds()))
	common := []string{"ec-P-256", "rsa-2048"}
	listener := func(name, kind string, chain, key []byte) {
		if key == nil {
			key = k[kind+".key"]
		}
		out = append(out, sample{name: kind + ", " + name, chain: chain, key: key})
	}
	bundle := func(name, kind string, text []byte) {
		out = append(out, sample{name: "CA " + kind + ", " + name, bundle: text})
	}
	for _, kind := range kinds {
		listener("plain", kind, plain(k.public(kind), false).pem(), nil)
		bundle("plain", kind, plain(k.public(kind), true).pem())
	}
	all := deviations()
	deviating := func(kind string, authority bool, with ...deviation) []byte {
		c := plain(k.public(kind), authority)
		for _, d := range with {
			d.apply(c)
		}
		return c.pem()
	}
	for _, d := range all {
		for _, kind := range common {
			listener(d.name, kind, deviating(kind, false, d), nil)
		}
		bundle(d.name, "ec-P-256", deviating("ec-P-256", true, d))
	}
	for range pairs {
		a, b, kind := all[r.IntN(len(all))], all[r.IntN(len(all))], common[r.IntN(2)]
		listener(a.name+" and "+b.name, kind, deviating(kind, false, a, b), nil)
		bundle(a.name+" and "+b.name, kind, deviating(kind, true, a, b))
	}
	good := plain(k.public("ec-P-256"), false).pem()
	authority := plain(k.public("rsa-2048"), true).pem()
	for _, w := range writings(authority) {
		listener(w.name, "ec-P-256", w.apply(good), nil)
		bundle(w.name, "rsa-2048", w.apply(authority))
		listener("key with "+w.name, "ec-P-256", good, w.apply(k["ec-P-256.key"]))
		d := all[r.IntN(len(all))]
		listener(w.name+" and "+d.name, "ec-P-256", w.apply(deviating("ec-P-256", false, d)), nil)
	}
	for _, d := range all { // deviations of a chain's second certificate
		listener("behind it: "+d.name, "ec-P-256", append(slices.Clone(good), deviating("rsa-2048", true, d)...), nil)
	}
	for _, f := range k.keyFiles() {
		listener(f.name, f.kind, plain(k.public(f.kind), false).pem(), f.text)
	}
	return out
}

type found struct {
	problem string
	sent    sample // the sample that Envoy receives; empty if Penstock rejects it
}

func penstock(t *testing.T, s sample) found {
	t.Helper()
	gw := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"}}
	objects := store.New()
	apply := func(ops ...store.Op) store.Reader {
		if _, err := objects.Apply(append(ops, store.Gateways.Put(gw))...); err != nil {
			t.Fatal(err)
		}
		return objects.View()
	}
	if s.key == nil {
		gw.Spec.TLS = &gatewayv1.GatewayTLSConfig{Frontend: &gatewayv1.FrontendTLSConfig{Default: gatewayv1.TLSConfig{
			Validation: &gatewayv1.FrontendTLSValidation{
				CACertificateRefs: []gatewayv1.ObjectReference{{Kind: "ConfigMap", Name: "ca"}},
			},
		}}}
		r := apply(store.ConfigMaps.Put(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ca"},
			BinaryData: map[string][]byte{"ca.crt": s.bundle},
		}))
		secret, ok := gatewayapi.ClientTrust(r, "default/gw", 0)
		if !ok || len(secret.CA) == 0 {
			return found{problem: "the bundle is of no use"}
		}
		return found{sent: sample{name: s.name, bundle: secret.CA}}
	}
	gw.Spec.Listeners = []gatewayv1.Listener{{Name: "https", Port: 443, Protocol: gatewayv1.HTTPSProtocolType,
		TLS: &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{{Name: "cert"}}}}}
	r := apply(store.Secrets.Put(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cert"},
		Data:       map[string][]byte{corev1.TLSCertKey: s.chain, corev1.TLSPrivateKeyKey: s.key},
	}))
	l := gatewayapi.Gateway(r, gatewayapi.Config{AnyClass: true}, "default/gw").Listeners[0]
	if len(l.Secrets) == 0 {
		for _, c := range l.Conditions {
			if c.Type == string(gatewayv1.ListenerConditionResolvedRefs) {
				return found{problem: c.Message}
			}
		}
		t.Fatalf("%s: no certificate, and no condition, want one of them", s.name)
	}
	secret, problem := gatewayapi.Certificate(r, "default", "cert")
	if problem != "" {
		t.Fatalf("%s: the listener has a certificate that is of no use: %s", s.name, problem)
	}
	return found{sent: sample{name: s.name, chain: secret.Chain, key: secret.Key}}
}

// envoy returns Envoy's error for each sample; "" means that Envoy accepts the sample. Each sample
// is a listener that binds no port.
func envoy(t *testing.T, k keys, samples []sample) []string {
	t.Helper()
	inline := func(text []byte) map[string]any { return map[string]any{"inline_bytes": text} }
	var listeners []any
	for i, s := range samples {
		tls := map[string]any{}
		if s.key == nil {
			s.chain, s.key = plain(k.public("ec-P-256"), false).pem(), k["ec-P-256.key"]
			tls["validation_context"] = map[string]any{"trusted_ca": inline(s.bundle)}
		}
		tls["tls_certificates"] = []any{
			map[string]any{"certificate_chain": inline(s.chain), "private_key": inline(s.key)},
		}
		listeners = append(listeners, map[string]any{
			"@type": "type.googleapis.com/envoy.config.listener.v3.Listener", "name": fmt.Sprint(i),
			"bind_to_port": false,
			"address": map[string]any{
				"socket_address": map[string]any{"address": "127.0.0.1", "port_value": i + 1},
			},
			"filter_chains": []any{map[string]any{
				"filters": []any{map[string]any{"name": "echo", "typed_config": map[string]any{
					"@type": "type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo"}}},
				"transport_socket": map[string]any{"name": "tls", "typed_config": map[string]any{
					"@type":              "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
					"common_tls_context": tls}},
			}},
		})
	}
	text, err := json.Marshal(map[string]any{"version_info": "1", "resources": listeners})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "listeners.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	e := envoytest.Start(t, envoytest.Config{Bootstrap: fmt.Appendf(nil,
		`{"node": {"id": "a", "cluster": "a"}, "dynamic_resources": {"lds_config": {"path_config_source": {"path": %q}}}}`, file)})
	e.WaitLive()
	defer e.Stop()
	page, err := e.Get("/listeners?format=json")
	if err != nil {
		t.Fatal(err)
	}
	var active struct {
		Listeners []struct{ Name string } `json:"listener_statuses"`
	}
	if err := json.Unmarshal(page, &active); err != nil {
		t.Fatal(err)
	}
	out := make([]string, len(samples))
	for i := range out {
		out[i] = "it is rejected"
	}
	for _, line := range rejected.FindAllStringSubmatch(e.Log(), -1) {
		if i, err := strconv.Atoi(line[1]); err == nil && i < len(out) {
			out[i] = line[2]
		}
	}
	for _, l := range active.Listeners {
		i, err := strconv.Atoi(l.Name)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = ""
	}
	return out
}

var rejected = regexp.MustCompile(`(?m)^(\d+): (.*)$`)

func TestCertificate_VerdictsAreEnvoys(t *testing.T) {
	seed := uint64(1)
	if text := os.Getenv("SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	k := readKeys(t)
	samples := corpus(t, k, seed)
	verdicts := envoy(t, k, samples)
	var sent []sample
	accepted := 0
	for i, s := range samples {
		f := penstock(t, s)
		if verdicts[i] == "" {
			accepted++
		}
		switch {
		case f.problem != "" && verdicts[i] == "":
			t.Errorf("%s: Envoy accepts it, and Penstock finds: %s, want no problem\n%s", s.name, f.problem, written(s))
		case f.problem == "":
			sent = append(sent, f.sent)
		}
	}
	for i, problem := range envoy(t, k, sent) {
		if problem != "" {
			t.Errorf("%s: Penstock accepts it, and Envoy finds: %s, want no problem\n%s", sent[i].name, problem,
				written(sent[i]))
		}
	}
	t.Logf("%d samples, of which Envoy accepts %d as they are, and %d as Penstock sends them", len(samples), accepted,
		len(sent))
	if accepted < len(samples)/10 || accepted > len(samples)*9/10 {
		t.Errorf("Envoy accepts %d of %d samples, want 10 to 90 %% of them: the corpus does not distinguish", accepted,
			len(samples))
	}
}

func written(s sample) string {
	if testing.Verbose() {
		return strings.TrimSpace(string(s.chain) + string(s.bundle))
	}
	return ""
}
