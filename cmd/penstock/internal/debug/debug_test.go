package debug

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
)

const private = "BEGIN PRIVATE KEY of somewhere"

func inline(text string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}}
}

func pages(t *testing.T) *httptest.Server {
	t.Helper()
	objects := store.New()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cert",
			Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: private}},
		Data: map[string][]byte{corev1.TLSCertKey: []byte("BEGIN CERTIFICATE"),
			corev1.TLSPrivateKeyKey: []byte(private), "password": []byte(private)},
	}
	if _, err := objects.Apply(store.Secrets.Put(secret)); err != nil {
		t.Fatal(err)
	}
	certificate := &tlsv3.TlsCertificate{CertificateChain: inline("BEGIN CERTIFICATE"), PrivateKey: inline(private)}
	nested, err := anypb.New(&tlsv3.UpstreamTlsContext{
		CommonTlsContext: &tlsv3.CommonTlsContext{TlsCertificates: []*tlsv3.TlsCertificate{certificate}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := cache.New(cache.Config{})
	c.SetReady()
	var all []*resource.Resource
	for _, r := range []struct {
		t   resource.Type
		msg proto.Message
	}{
		{resource.Secret, &tlsv3.Secret{Name: "r", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: certificate}}},
		{
			resource.Cluster,
			&clusterv3.Cluster{
				Name: "r", TransportSocket: &corev3.TransportSocket{
					Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: nested},
				},
			},
		},
	} {
		made, err := resource.New(r.t, "r", r.msg, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, made)
	}
	c.Commit(cache.Batch{Gateway: "default/gw", Upserts: all})
	xds, err := server.New(server.Config{Cache: c})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	Register(mux, Config{Store: objects, Cache: c, XDS: xds, Rows: func(string) []graph.Explanation { return nil }})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, s *httptest.Server, path string) (int, string) {
	t.Helper()
	resp, err := s.Client().Get(s.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body.String()
}

func TestDebug_PrivateKeysNeverAppear(t *testing.T) {
	s := pages(t)
	for path, want := range map[string]string{
		"/debug/store/Secret":                  `"name": "cert"`,
		"/debug/xds/dump?gateway=default%2Fgw": `"certificate_chain"`,
	} {
		status, body := get(t, s, path)
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, want %s in %s", path, status, want, body)
		}
		for _, secret := range []string{private, "QkVHSU4gUFJJVkFURSBLRVk"} { // as text and in base64
			if strings.Contains(body, secret) {
				t.Errorf("%s contains a private key: %s", path, body)
			}
		}
	}
}

func TestDebug_DumpHasEnvoysForm(t *testing.T) {
	_, body := get(t, pages(t), "/debug/xds/dump?gateway=default%2Fgw")
	var dump struct {
		Configs []struct {
			Type     string `json:"@type"`
			Clusters []struct {
				Version string `json:"version_info"`
				Cluster struct{ Name string }
			} `json:"dynamic_active_clusters"`
		}
	}
	if err := json.Unmarshal([]byte(body), &dump); err != nil {
		t.Fatal(err)
	}
	if c := dump.Configs[0]; !strings.HasSuffix(c.Type, "ClustersConfigDump") || len(c.Clusters) != 1 ||
		c.Clusters[0].Cluster.Name != "r" || c.Clusters[0].Version == "" {
		t.Errorf("the first section: got %+v, want cluster r with its version", c)
	}
}

func TestDebug_UnknownNamesListTheKnownOnes(t *testing.T) {
	s := pages(t)
	for path, want := range map[string]string{
		"/debug/store/Pudding":                 "HTTPRoute",
		"/debug/xds/dump?gateway=default/none": "default/gw",
		"/debug/graph?key=none":                "no row has a key",
		"/debug/xds/diff?node=none":            "no proxy with node id",
	} {
		if status, body := get(t, s, path); status != http.StatusNotFound || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want 404 with %q", path, status, body, want)
		}
	}
}

func TestDebug_KindsAreFoundAsKubectlFindsThem(t *testing.T) {
	for name, kind := range map[string]string{"httproutes": "HTTPRoute", "Gateway": "Gateway",
		"gatewayclasses": "GatewayClass", "backendtlspolicies": "BackendTLSPolicy", "modelservers": "ModelServers"} {
		if got, ok := table(name); !ok || got.Kind() != kind {
			t.Errorf("%q: got nothing, or another kind than %s, want that one", name, kind)
		}
	}
}
