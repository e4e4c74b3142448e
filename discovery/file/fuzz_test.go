package file

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// No file causes a panic, and every document that is not empty yields an object or a finding.
func FuzzDocument_YieldsObjectOrFinding(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	for _, s := range []string{
		"a: &a [*a]", "x: &x {<<: *x}", "kind: List\nitems: [1, {kind: 2}]", "--- \n...\n--- 'a", "? [a]\n: b",
		"a: !!binary '?'", "a: .nan", "\ufeffkind: 1",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: 1\ndata: []",
		"apiVersion: v1\nkind: Service\nmetadata: null",
		"apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: a}\nstatus: " +
			"{clusters: [1, null, {parents: [2], conditions: [3]}]}",
	} {
		f.Add([]byte(s))
	}
	catalog := theCatalog()
	f.Fuzz(func(t *testing.T, raw []byte) {
		text, ok := decodeText(raw)
		if !ok {
			return
		}
		for _, doc := range split(text) {
			if err := doc.read(context.Background(), catalog); err != nil {
				t.Fatal(err)
			}
			if len(doc.objects)+len(doc.mistakes) == 0 {
				if node, m := parseNode(doc.text); m == nil && node.ShortTag() != "!!null" {
					t.Errorf("no object and no finding for %q, want one of them", doc.text)
				}
			}
			for _, o := range doc.objects {
				if (o.good == nil) == (o.kind != nil && !hasError(o.mistakes)) {
					t.Errorf("%s is %v with %v, want an object if and only if it has a kind and no error",
						o.ref, o.good, o.mistakes)
				}
			}
		}
	})
}
