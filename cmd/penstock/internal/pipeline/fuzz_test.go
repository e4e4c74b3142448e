package pipeline_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
)

// Envoy must acknowledge the translation of any input without a finding or a False condition. Each
// target takes the objects of a file in testdata/objects, which sets every field that reaches
// Envoy, and changes two fields.

func FuzzRoute_ValidIsACKed(f *testing.F)         { fuzzObjects(f, "routes.yaml") }
func FuzzGateway_ValidIsACKed(f *testing.F)       { fuzzObjects(f, "gateways.yaml") }
func FuzzPolicy_ValidIsACKed(f *testing.F)        { fuzzObjects(f, "policies.yaml") }
func FuzzInferencePool_ValidIsACKed(f *testing.F) { fuzzObjects(f, "pools.yaml") }
func FuzzService_ValidIsACKed(f *testing.F)       { fuzzObjects(f, "services.yaml") }

// hostileTexts are seeds: each is invalid in some field and valid in another.
var hostileTexts = []string{
	"", "*", "/", "(", "%", "a\r\nb", ":path", "Host", "*.example.com", "99999h", "0s", "1.2.3.4", "::1", "//a/../b",
	"%REQ(x)%", "https://*", "\\1", "(?i)\\pL{900}",
	"a b", "é\x00", strings.Repeat("a", 300), strings.Repeat("a.", 130) + "a", "/" + strings.Repeat("b", 1100),
	"unknown", "[", "a,b", "a;b=c", "0", "-1", "true",
}

var hostileNumbers = []int64{0, -1, 1, 65535, 65536, 1 << 31, 1<<31 - 1, 1 << 32, 1<<63 - 1}

// fuzzObjects changes fields of a file's objects. A place is "KIND/NAME field"; a "!" before it
// removes the field. Any other text selects some field.
func fuzzObjects(f *testing.F, name string) {
	base, objects := readObjects(f, "base.yaml"), readObjects(f, name)
	places := fieldsOf(objects)
	f.Add("", "", int64(0), "", "")
	for i, p := range places {
		left := ""
		if i%4 == 0 {
			left = "!"
		}
		f.Add(left+p.String(), hostileTexts[i%len(hostileTexts)], hostileNumbers[i%len(hostileNumbers)], "", "")
	}
	e := startFuzzEnvoy(f)
	f.Fuzz(func(t *testing.T, first, text string, number int64, second, secondText string) {
		changed := clone(t, objects)
		for _, c := range []struct{ place, text string }{{first, text}, {second, secondText}} {
			if c.place != "" {
				place, left := strings.CutPrefix(c.place, "!")
				find(places, place).set(changed, strings.ToValidUTF8(c.text, "?"), number, left)
			}
		}
		e.check(t, slices.Concat(base, changed))
	})
}

// FuzzCertificate_ValidIsACKed replaces the objects' certificate and key by any PEM.
func FuzzCertificate_ValidIsACKed(f *testing.F) {
	archive := certificateSeeds(f)
	for i := 0; i < len(archive.Files); i += 2 {
		f.Add(archive.Files[i].Data, archive.Files[i+1].Data)
	}
	objects := slices.Concat(readObjects(f, "base.yaml"), readObjects(f, "gateways.yaml"))
	e := startFuzzEnvoy(f)
	f.Fuzz(func(t *testing.T, chain, key []byte) { e.check(t, withCertificate(t, objects, chain, key)) })
}

func certificateSeeds(t testing.TB) *txtar.Archive {
	t.Helper()
	archive, err := txtar.ParseFile("../../../../translator/gatewayapi/testdata/fuzz-seeds.pem.txt")
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

func withCertificate(t *testing.T, objects []map[string]any, chain, key []byte) []map[string]any {
	t.Helper()
	changed := clone(t, objects)
	for _, o := range changed {
		switch data, _ := o["data"].(map[string]any); o["kind"] {
		case "Secret":
			data["tls.crt"] = base64.StdEncoding.EncodeToString(chain)
			data["tls.key"] = base64.StdEncoding.EncodeToString(key)
		case "ConfigMap":
			data["ca.crt"] = strings.ToValidUTF8(string(chain), "?")
		}
	}
	return changed
}

// A starting Envoy has no last good version, so each certificate of the corpus is also sent to one.
func TestFuzzCertificate_SeedsAreACKedByEnvoysThatHaveJustStarted(t *testing.T) {
	archive := certificateSeeds(t)
	objects := slices.Concat(readObjects(t, "base.yaml"), readObjects(t, "gateways.yaml"))
	used := 0
	for i := 0; i < len(archive.Files); i += 2 {
		t.Run(filepath.Dir(archive.Files[i].Name), func(t *testing.T) {
			tr, _ := translate(t, withCertificate(t, objects, archive.Files[i].Data, archive.Files[i+1].Data))
			for _, gateway := range tr.Gateways() {
				e := &fuzzEnvoy{control: xdstest.Serve(t, server.Config{}), acked: map[uint64]bool{}}
				now := tr.Resources(gateway)
				if !slices.ContainsFunc(now, func(r *resource.Resource) bool { return r.Type == resource.Secret }) {
					continue
				}
				used++
				e.commit(now)
				e.start(t)
				if problem := e.rejects(t, now); problem != "" {
					t.Errorf("gateway %s: got the problem %s, want none", gateway, problem)
				}
			}
		})
	}
	if used < len(archive.Files)/4 {
		t.Errorf("%d certificates reach Envoy, of %d, want at least %d",
			used, len(archive.Files)/2, len(archive.Files)/4)
	}
}

// All objects that the fuzz targets change are accepted, so that Envoy gets their fields.
func TestFuzzObjects_AllAreAccepted(t *testing.T) {
	base := readObjects(t, "base.yaml")
	for _, name := range []string{"routes.yaml", "gateways.yaml", "policies.yaml", "pools.yaml", "services.yaml"} {
		objects := readObjects(t, name)
		_, reports := translate(t, slices.Concat(base, objects))
		for _, r := range reports {
			for _, c := range r.Conditions {
				if c.Status != "True" {
					t.Errorf(`%s: %s: %s is %s: %s, want "True"`, name, r.Owner, c.Type, c.Status, c.Message)
				}
			}
			for _, finding := range r.Findings {
				if finding.Severity == report.Error {
					t.Errorf("%s: %s: got the error %s: %s, want none", name, r.Owner, finding.Field, finding.Problem)
				}
			}
		}
	}
}

func translate(t testing.TB, objects []map[string]any) (*translator.Translator, []report.Report) {
	t.Helper()
	done := readAll(t, objects)
	done.translate(t)
	return done.Translator, append(done.read, done.out.Reports...)
}

type translated struct {
	*translator.Translator
	view *store.View
	out  translator.Output
	read []report.Report // reports of the reader
}

func readAll(t testing.TB, objects []map[string]any, own ...store.Op) (done translated) {
	t.Helper()
	var docs []string
	for _, o := range objects {
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(raw))
	}
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(docs, "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	s := store.New()
	everywhere := &store.AddressPolicy{ObjectMeta: metav1.ObjectMeta{Name: store.OwnAddressPolicy},
		Allowed: []string{"0.0.0.0/0", "::/0"}, ExternalName: true}
	if _, err := s.Apply(append(own, store.AddressPolicies.Put(everywhere))...); err != nil {
		t.Fatal(err)
	}
	reader, err := file.New(file.Config{
		Paths: []string{path}, Store: s, Log: slog.New(slog.DiscardHandler),
		Report: func(r []report.Report) { done.read = append(done.read, r...) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	done.view = s.View()
	return done
}

func (done *translated) translate(t testing.TB) {
	t.Helper()
	done.Translator = translator.New(translator.Config{
		Controller: "penstock.dev/gateway-controller", AnyClass: true,
		Pickers: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9")},
	})
	done.out = done.Update(done.view, store.Everything(done.view))
	if done.out.Err != nil {
		t.Errorf("translation makes what fails our own checks: %v", done.out.Err)
	}
	for _, p := range done.out.Panics {
		t.Errorf("got a panic at %s: %s, want none\n%s", p.Row, p.Value, p.Stack)
	}
}

// place is a field that has no fields of its own.
type place struct {
	object int      // index of the object
	name   string   // "KIND/NAME"
	path   []string // keys, and indexes in decimal
}

func (p place) String() string { return p.name + " " + strings.Join(p.path, ".") }

func find(places []place, name string) place {
	if i := slices.IndexFunc(places, func(p place) bool { return p.String() == name }); i >= 0 {
		return places[i]
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return places[h.Sum32()%uint32(len(places))]
}

// fieldsOf lists every field of objects except their identity.
func fieldsOf(objects []map[string]any) (out []place) {
	for i, o := range objects {
		at := place{object: i, name: fmt.Sprintf("%s/%s", o["kind"], o["metadata"].(map[string]any)["name"])}
		var walk func(v any, path []string)
		walk = func(v any, path []string) {
			switch v := v.(type) {
			case map[string]any:
				for _, key := range sortedKeys(v) {
					walk(v[key], append(slices.Clone(path), key))
				}
			case []any:
				for n, item := range v {
					walk(item, append(slices.Clone(path), strconv.Itoa(n)))
				}
			default:
				at.path = path
				out = append(out, at)
			}
		}
		for _, key := range sortedKeys(o) {
			if key != "apiVersion" && key != "kind" && key != "metadata" {
				walk(o[key], []string{key})
			}
		}
	}
	return out
}

func sortedKeys(m map[string]any) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// set replaces a field's value by one of the same type, or removes the field if left is set. A
// removed field stays removed.
func (p place) set(objects []map[string]any, text string, number int64, left bool) {
	var at any = objects[p.object]
	for i, key := range p.path {
		last := i == len(p.path)-1
		switch v := at.(type) {
		case map[string]any:
			if last && left {
				delete(v, key)
			} else if last {
				v[key] = changed(p, v[key], text, number)
			}
			at = v[key]
		case []any:
			n, _ := strconv.Atoi(key)
			if last {
				v[n] = changed(p, v[n], text, number)
			}
			at = v[n]
		}
	}
}

func changed(p place, old any, text string, number int64) any {
	switch old.(type) {
	case string:
		if strings.HasPrefix(p.name, "Secret/") {
			return base64.StdEncoding.EncodeToString([]byte(text))
		}
		return text
	case bool:
		return number%2 == 0
	}
	return number
}

func readObjects(t testing.TB, name string) []map[string]any {
	t.Helper()
	return readFile(t, filepath.Join("testdata", "objects", name))
}

func readFile(t testing.TB, name string) (out []map[string]any) {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(string(raw), "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, o)
	}
	return out
}

func clone(t testing.TB, objects []map[string]any) (out []map[string]any) {
	t.Helper()
	raw, err := json.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
