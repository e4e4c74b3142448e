package featuretests

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/xds/resource"
)

type translation struct {
	*testing.T
	resources map[string][]any // decoded JSON, by type (route, cluster, listener, endpoints, secret)
	reports   map[string]string
}

// given translates documents, which must all be valid.
func given(t *testing.T, documents ...string) *translation {
	t.Helper()
	path := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(documents, "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	objects := store.New()
	if _, err := objects.Apply(store.AddressPolicies.Put(addresses.Unrestricted())); err != nil {
		t.Fatal(err)
	}
	reader, err := file.New(file.Config{Paths: []string{path}, Store: objects, Log: slog.New(slog.DiscardHandler),
		Report: func(list []report.Report) {
			for _, r := range list {
				for _, f := range r.Findings {
					t.Errorf("input: got the finding %s, want none", f)
				}
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr := translator.New(translator.Config{Controller: "penstock.dev/gateway-controller", AnyClass: true,
		Pickers: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9002")}})
	out := tr.Update(objects.View(), store.Everything(objects.View()))
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	x := &translation{T: t, resources: map[string][]any{}, reports: map[string]string{}}
	for _, r := range tr.Resources("default/gw") {
		x.resources[r.Type.String()] = append(x.resources[r.Type.String()], decode(t, r))
	}
	for _, r := range out.Reports {
		var lines []string
		for _, c := range r.Conditions {
			lines = append(lines, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
		}
		x.reports[r.Owner.Kind+" "+r.Owner.Name] += strings.Join(lines, " ")
	}
	return x
}

func decode(t *testing.T, r *resource.Resource) any {
	t.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByURL(r.Type.URL())
	if err != nil {
		t.Fatal(err)
	}
	msg := kind.New().Interface()
	if err := proto.Unmarshal(r.Body(), msg); err != nil {
		t.Fatal(err)
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// has checks that a resource of this type contains a YAML fragment at some depth: entries of a map,
// or elements of a list in order.
func (x *translation) has(kind, fragment string) *translation {
	x.Helper()
	if !x.contains(kind, fragment) {
		text, _ := yaml.Marshal(x.resources[kind])
		x.Errorf("want a %s with\n%s\ngot\n%s\n%v", kind, fragment, text, x.reports)
	}
	return x
}

func (x *translation) hasNot(kind, fragment string) *translation {
	x.Helper()
	if x.contains(kind, fragment) {
		x.Errorf("a %s has\n%s\nwant none", kind, fragment)
	}
	return x
}

func (x *translation) contains(kind, fragment string) bool {
	x.Helper()
	var want any
	if err := yaml.Unmarshal([]byte(fragment), &want); err != nil {
		x.Fatalf("%v in\n%s", err, fragment)
	}
	return slices.ContainsFunc(x.resources[kind], func(got any) bool { return within(want, got) })
}

func within(want, got any) bool {
	if part(want, got) {
		return true
	}
	switch g := got.(type) {
	case map[string]any:
		for _, v := range g {
			if within(want, v) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(g, func(v any) bool { return within(want, v) })
	}
	return false
}

func part(want, got any) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		for k, v := range w {
			ok = ok && part(v, g[k])
		}
		return ok
	case []any:
		g, ok := got.([]any)
		i := 0
		for _, v := range g {
			if i < len(w) && part(w[i], v) {
				i++
			}
		}
		return ok && i == len(w)
	}
	return fmt.Sprint(want) == fmt.Sprint(got)
}

var (
	gateway  = gatewayOf(`listeners: [{name: http, port: 8080, protocol: HTTP}]`)
	services = service("a", "10.0.0.1", "") + "\n---\n" + service("b", "10.0.0.2", "")
)

func gatewayOf(spec string) string {
	return "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: gw}\nspec:\n  " +
		"gatewayClassName: penstock\n" + indent(spec)
}

func service(name, address, port string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {ports: [{port: 80%[3]s}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-1, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{port: 80}]
endpoints: [{addresses: [%[2]s]}]`, name, address, port)
}

func route(spec string) string { return routeOf("HTTPRoute", spec) }

func routeOf(kind, spec string) string {
	return "apiVersion: gateway.networking.k8s.io/v1\nkind: " + kind +
		"\nmetadata: {name: web}\nspec:\n  parentRefs: [{name: gw}]\n" + indent(spec)
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}

func web(t *testing.T, rule string) *translation {
	t.Helper()
	return given(t, gateway, services, route("rules:\n- "+strings.ReplaceAll(strings.TrimSpace(rule), "\n", "\n  ")))
}
