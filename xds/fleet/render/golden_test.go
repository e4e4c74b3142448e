package render_test

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/fleet/render"
)

var settings = render.Settings{
	ADS: []string{"penstock.penstock-system.svc:18000"}, CA: []byte("the authority\n"), EnvoyImage: "envoy:1",
	PenstockImage: "penstock:1",
	ExternalIPs:   []netip.Prefix{netip.MustParsePrefix("192.0.2.8/31")},
}

// Each file in testdata has the harm to users if the test fails, the Gateway, the EnvoyFleet,
// optionally the port for other clusters, and the applied objects.
func TestEnvoyFleet_GoldenObjects(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no goldens", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := txtar.Archive{Comment: archive.Comment,
				Files: []txtar.File{section(t, archive, "gateway.yaml"), section(t, archive, "fleet.yaml")}}
			if i := peerPort(archive); i >= 0 {
				got.Files = append(got.Files, archive.Files[i])
			}
			f := read(t, archive)
			objects, err := render.Objects(settings, f)
			if err != nil {
				got.Files = append(got.Files, txtar.File{Name: "invalid field", Data: []byte(describe(t, err))})
			}
			for _, o := range objects {
				if config, ok := o.(*corev1.ConfigMap); ok { // xds/bootstrap has its own goldens
					config.Data["bootstrap.yaml"] = "of " + settings.ADS[0]
				}
				got.Files = append(got.Files, txtar.File{
					Name: o.GetObjectKind().GroupVersionKind().Kind,
					Data: hashes.ReplaceAll(marshal(t, o), []byte("penstock.dev/bootstrap: HASH")),
				})
			}
			if os.Getenv("PENSTOCK_GOLDEN") == "rewrite" {
				if err := os.WriteFile(file, txtar.Format(&got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(archive)), string(txtar.Format(&got))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestName_IsValidForServices(t *testing.T) {
	long := strings.Repeat("a", 70)
	seen := map[string]string{}
	for gateway, want := range map[string]string{
		"edge": "edge-penstock", "a.b": "a-b-penstock-", "1st": "gw-1st-penstock-", long: "", long + "b": "",
		"a-b": "a-b-penstock",
	} {
		got := render.Name(gateway, "penstock")
		if !strings.HasPrefix(got, want) || len(got) > 63 || strings.ContainsAny(got, "._") || got[0] < 'a' ||
			got[0] > 'z' {
			t.Errorf("%s: got %s, want a DNS label of at most 63 bytes that begins with %q", gateway, got, want)
		}
		if other, twice := seen[got]; twice {
			t.Errorf("%s and %s share the name %s, want two", gateway, other, got)
		}
		seen[got] = gateway
	}
}

func TestDeployment_NewAuthorityRollsNoPods(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/plain.txtar")
	if err != nil {
		t.Fatal(err)
	}
	deployment := func(s render.Settings) []byte {
		objects, err := render.Objects(s, read(t, archive))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if o.GetObjectKind().GroupVersionKind().Kind == "Deployment" {
				return marshal(t, o)
			}
		}
		t.Fatal("no Deployment")
		return nil
	}
	before := deployment(settings)
	s := settings
	s.CA = []byte("another authority\n")
	if !bytes.Equal(before, deployment(s)) {
		t.Error("the Deployment changed with the authority")
	}
	s.ADS = []string{"elsewhere:1"}
	if bytes.Equal(before, deployment(s)) {
		t.Error("pods must be replaced when their bootstrap changes")
	}
}

func TestGatewayInfrastructure_LabelsAndAnnotationsReachEveryObject(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/plain.txtar")
	if err != nil {
		t.Fatal(err)
	}
	f := read(t, archive)
	f.Gateway.Spec.Infrastructure = &gatewayv1.GatewayInfrastructure{
		Labels:      map[gatewayv1.LabelKey]gatewayv1.LabelValue{"team": "blue"},
		Annotations: map[gatewayv1.AnnotationKey]gatewayv1.AnnotationValue{"example.com/owner": "jane"},
	}
	objects, err := render.Objects(settings, f)
	if err != nil || len(objects) == 0 {
		t.Fatal(objects, err)
	}
	for _, o := range objects {
		if o.GetLabels()["team"] != "blue" || o.GetAnnotations()["example.com/owner"] != "jane" {
			t.Errorf("%s: labels %v, annotations %v; want team blue and owner jane",
				o.GetObjectKind().GroupVersionKind().Kind, o.GetLabels(), o.GetAnnotations())
		}
	}
}

func TestGatewayAddressEmpty_RequestsAnyAddress(t *testing.T) {
	gw := &gatewayv1.Gateway{
		Spec: gatewayv1.GatewaySpec{Addresses: []gatewayv1.GatewaySpecAddress{{}, {Value: "192.0.2.9"}}},
	}
	own, external, outside := render.Assign(gw, &v1alpha1.EnvoyFleetSpec{}, settings.ExternalIPs)
	if own != "192.0.2.9" || len(external)+len(outside) != 0 {
		t.Errorf("own %q, external %v, outside %v; want 192.0.2.9 alone", own, external, outside)
	}
	gw.Spec.Addresses = gw.Spec.Addresses[:1]
	if own, external, outside = render.Assign(gw, &v1alpha1.EnvoyFleetSpec{}, settings.ExternalIPs); own != "" ||
		len(external)+len(outside) != 0 {
		t.Errorf("an empty address alone: own %q, external %v, outside %v; want none", own, external, outside)
	}
}

func read(t *testing.T, archive *txtar.Archive) render.Fleet {
	t.Helper()
	gw, fleet := &gatewayv1.Gateway{}, &v1alpha1.EnvoyFleet{}
	for name, into := range map[string]any{"gateway.yaml": gw, "fleet.yaml": fleet} {
		if err := yaml.UnmarshalStrict(section(t, archive, name).Data, into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	f := render.Fleet{Gateway: gw, Spec: &fleet.Spec, Running: 5}
	for _, l := range gw.Spec.Listeners {
		f.Ports = append(f.Ports, render.Port{
			Number: int32(l.Port), UDP: l.Protocol == gatewayv1.UDPProtocolType,
			Name: strings.ToLower(string(l.Protocol)),
		})
	}
	if i := peerPort(archive); i >= 0 {
		number, err := strconv.Atoi(strings.TrimSpace(string(archive.Files[i].Data)))
		if err != nil {
			t.Fatal(err)
		}
		f.Ports = append(f.Ports, render.Port{Number: int32(number), Name: "peer"})
	}
	return f
}

func peerPort(archive *txtar.Archive) int {
	return slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "peer port" })
}

func section(t *testing.T, archive *txtar.Archive, name string) txtar.File {
	t.Helper()
	for _, f := range archive.Files {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no %s", name)
	return txtar.File{}
}

func marshal(t *testing.T, o any) []byte {
	t.Helper()
	out, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var hashes = regexp.MustCompile(`penstock.dev/bootstrap: \S+`)

func describe(t *testing.T, err error) string {
	t.Helper()
	var m *render.InvalidField
	if !errors.As(err, &m) {
		t.Fatal(err)
	}
	return m.Field + ": " + m.Problem + "; " + m.Fix + "\n"
}

func TestPodDisruptionBudget_LetsSingleProxyBeEvicted(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/plain.txtar")
	if err != nil {
		t.Fatal(err)
	}
	f := read(t, archive)
	f.Spec.Replicas = new(int32(1))
	objects, err := render.Objects(settings, f)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(objects, func(o render.Object) bool {
		return o.GetObjectKind().GroupVersionKind().Kind == "PodDisruptionBudget"
	})
	if spec := objects[i].(*policyv1.PodDisruptionBudget).Spec; spec.MinAvailable != nil ||
		spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("got %+v, want at most 1 unavailable: its node could never be drained", spec)
	}
}
