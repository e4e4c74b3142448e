package envoy

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// world is the model in a golden file, as YAML.
type world struct {
	Config      Config
	Ports       []model.Port
	Chains      []model.Chain // only their route configurations are printed
	Hosts       []*model.VirtualHost
	Hops        []model.Hop
	Clusters    []*model.Cluster
	Assignments []*model.Assignment
}

func (w world) translate() (out []*resource.Resource, err error) {
	add := func(r *resource.Resource, e error) {
		if err == nil {
			err = e
		}
		out = append(out, r)
	}
	for _, p := range w.Ports {
		add(Listener(w.Config, p))
		w.Chains = append(w.Chains, p.Chains...)
	}
	for _, c := range w.Chains {
		var hosts []*Encoded
		for _, h := range w.Hosts {
			if h.Chain == c.Name {
				vh, e := VirtualHost(h)
				if e != nil {
					return nil, e
				}
				hosts = append(hosts, vh)
			}
		}
		add(inOneBlock(c, hosts...))
	}
	if len(w.Hops) > 0 {
		add(HopListener(w.Config, nil))
		add(hopRoutes(w.Hops...))
	}
	for _, c := range w.Clusters {
		add(Cluster(c))
	}
	for _, a := range w.Assignments {
		add(Endpoints(a))
	}
	return out, err
}

func inOneBlock(c model.Chain, hosts ...*Encoded) (*resource.Resource, error) {
	block, err := NewBlock(hosts)
	if err != nil {
		return nil, err
	}
	return RouteConfiguration(c.Name, c, block)
}

func hopRoutes(hops ...model.Hop) (*resource.Resource, error) {
	var hosts []*Encoded
	for _, h := range hops {
		host, err := HopHost(h)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, host)
	}
	block, err := NewBlock(hosts)
	if err != nil {
		return nil, err
	}
	return HopRoutes(block)
}

// Each file has a model and its expected Envoy resources. PENSTOCK_GOLDEN=rewrite rewrites the
// file.
func TestEnvoy_Golden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var w world
			if err := yaml.UnmarshalStrict(ar.Files[0].Data, &w); err != nil {
				t.Fatalf("%s: %v", ar.Files[0].Name, err)
			}
			resources, err := w.translate()
			if err != nil {
				t.Fatal(err)
			}
			again, err := w.translate()
			if err != nil || !slices.EqualFunc(resources, again, (*resource.Resource).Equal) {
				t.Errorf("the same input: got other bytes or %v, want the same", err)
			}
			got := []txtar.File{ar.Files[0], {Name: "envoy.yaml", Data: readable(t, resources)}}
			if os.Getenv("PENSTOCK_GOLDEN") == "rewrite" {
				ar.Files = got
				if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(ar.Files) < 2 {
				t.Fatal("no envoy.yaml yet: run make golden")
			}
			if diff := cmp.Diff(string(ar.Files[1].Data), string(got[1].Data)); diff != "" {
				t.Errorf("Envoy gets something else (make golden, if that is meant) (-want +got):\n%s", diff)
			}
		})
	}
}

func readable(t *testing.T, resources []*resource.Resource) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, r := range resources {
		msg, err := (&anypb.Any{TypeUrl: r.Type.URL(), Value: r.Body()}).UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		json, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(msg)
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.JSONToYAML(json)
		if err != nil {
			t.Fatal(err)
		}
		var refs, owners []string
		for _, ref := range r.Refs {
			refs = append(refs, ref.String())
		}
		for _, o := range r.Owners() {
			owners = append(owners, o.String())
		}
		fmt.Fprintf(&out, "--- # %s, names: [%s], made from: [%s]\n%s", r.Ref, strings.Join(refs, ", "),
			strings.Join(owners, ", "), text)
	}
	return out.Bytes()
}
