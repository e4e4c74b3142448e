package gates_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/cmd/penstock/internal/gates"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/picker/authz/jwks"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func setOf(id string) string {
	const public = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" // RFC 8037, appendix A.2
	return fmt.Sprintf(`{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": %q, "x": %q}]}`, id, public)
}

func tokenPolicy(edit func(*v1alpha1.AccessJWT)) *v1alpha1.AccessPolicy {
	p := &v1alpha1.AccessPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "staff"}}
	p.Spec.JWT = &v1alpha1.AccessJWT{Issuer: "https://sso.example", Audiences: []string{"models"}}
	edit(p.Spec.JWT)
	return p
}

type issuerWorld struct {
	*testing.T
	store  *store.Store
	board  *status.Board
	keeper *gates.Keeper
}

func newIssuerWorld(t *testing.T, fetch jwks.Config) *issuerWorld {
	t.Helper()
	w := &issuerWorld{T: t, store: store.New(), board: status.NewBoard(nil)}
	w.keeper = gates.New(gates.Config{Store: w.store, Board: w.board, Now: time.Now, Fetch: fetch})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.keeper.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return w
}

// reports waits until the findings contain a text; "": until there are no findings.
func (w *issuerWorld) reports(want string) {
	w.Helper()
	poll.NoError(w, "the findings have "+want, poll.Limit, func() error {
		var found []string
		for _, r := range w.board.List(status.NewWatchSet()) {
			for _, f := range r.Findings {
				found = append(found, f.String())
			}
		}
		got := strings.Join(found, "\n")
		if !strings.Contains(got, want) || (want == "") != (got == "") {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
}

func TestIssuers_ProblemsOfKeysAreFindingsOfThePolicy(t *testing.T) {
	down := atomic.Bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		fmt.Fprint(w, setOf("a"))
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	w := newIssuerWorld(t, jwks.Config{Hosts: []string{host}, Never: func(netip.Addr) string { return "" }})
	put := func(edit func(*v1alpha1.AccessJWT)) { apply(t, w.store, store.AccessPolicies.Put(tokenPolicy(edit))) }
	put(func(j *v1alpha1.AccessJWT) { j.JWKS = &v1alpha1.AccessJWKS{Inline: "nonsense"} })
	w.reports("AccessPolicy infra/staff spec.jwt.jwks.inline: no token is let in without the issuer's keys: it is no " +
		"JSON object")
	put(func(j *v1alpha1.AccessJWT) { j.JWKS = &v1alpha1.AccessJWKS{Inline: setOf("a")} })
	w.reports("")
	put(func(*v1alpha1.AccessJWT) {})
	w.reports("AccessPolicy infra/staff spec.jwt.issuer: no token is let in without the issuer's keys: host " +
		"sso.example is not in --fetch-hosts; ask the operator")
	down.Store(true)
	put(func(j *v1alpha1.AccessJWT) { j.JWKS = &v1alpha1.AccessJWKS{URI: server.URL} })
	w.reports("spec.jwt.jwks.uri: no token is let in without the issuer's keys: " + host + " answers with status 502")
	down.Store(false)
	put(func(j *v1alpha1.AccessJWT) { j.JWKS = &v1alpha1.AccessJWKS{URI: server.URL + "/keys"} })
	w.reports("")
	apply(t, w.store, store.AccessPolicies.Delete("infra/staff"))
	w.reports("")
}

// A policy that names a missing object lets no token in. Without the issuer's CA, for example, any
// server could pose as the issuer.
func TestIssuers_MissingObjectsCloseThePolicy(t *testing.T) {
	world := store.New()
	put := func(o store.Op) { apply(t, world, o) }
	put(store.AccessPolicies.Put(tokenPolicy(func(j *v1alpha1.AccessJWT) {
		j.CACertificateRefs = []v1alpha1.AccessObject{{Name: "ca"}}
		j.TokenSecretRef = &v1alpha1.AccessObject{Name: "fetch"}
	})))
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	rule := func() bool { return gates.PolicyOf(world.View(), "infra/staff").JWT != nil }
	for _, c := range []struct {
		what   string
		change store.Op
		want   bool
	}{
		{"without both", store.Secrets.Delete("infra/fetch"), false},
		{"without the CA", store.Secrets.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "infra",
			Name: "fetch"}, StringData: map[string]string{"token": "t\n"}}), false},
		{"with a CA of other text", configMap("nonsense"), false},
		{"with both", configMap(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: server.Certificate().Raw}))), true},
		{"with a token of two lines", store.Secrets.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "infra", Name: "fetch"}, StringData: map[string]string{"token": "a\nb"}}), false},
	} {
		put(c.change)
		if got := rule(); got != c.want {
			t.Errorf("%s: lets tokens in: got %v, want %v", c.what, got, c.want)
		}
	}
	if p := gates.PolicyOf(world.View(), "infra/staff"); p == nil || p.JWT != nil {
		t.Error("the policy is gone, or open")
	}
}

func configMap(ca string) store.Op {
	return store.ConfigMaps.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "ca"},
		Data: map[string]string{"ca.crt": ca}})
}
