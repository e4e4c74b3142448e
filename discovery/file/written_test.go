package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/penstock-project/penstock/discovery/file"
)

func TestWritten_EditKeepsCommentsAndOtherDocuments(t *testing.T) {
	const before = `# Our gateway.
apiVersion: v1
kind: Secret
metadata:   {name:  x}   # odd spaces
---
# The set.
apiVersion: penstock.dev/v1alpha1
kind: ClusterSet
metadata: {name: gpus}
spec:
  cluster: here  # this one
  podCIDRs: [10.0.0.0/8]
  members:
  - name: east
---
apiVersion: v1
kind:    Service
`
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, []byte(before), 0o640); err != nil {
		t.Fatal(err)
	}
	found, err := file.FindWritten([]string{filepath.Dir(path)}, "penstock.dev", "ClusterSet")
	if err != nil || len(found) != 1 || found[0].Name != "gpus" || found[0].Line != 7 {
		t.Fatalf("got %+v, %v; want gpus at line 7", found, err)
	}
	spec := file.Field(found[0].Node, "spec")
	file.SetField(spec, "draining", &yaml.Node{Kind: yaml.ScalarNode, Value: "true"})
	if err := found[0].Save(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(before, "  - name: east\n", "  - name: east\n  draining: true\n",
		1); strings.ReplaceAll(string(after), "here # this", "here  # this") != want {
		t.Errorf("after the edit:\n%s\nwant:\n%s", after, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v; want 0640", info.Mode(), err)
	}
	if err := found[0].Save(); err == nil || !strings.Contains(err.Error(), "has changed meanwhile") {
		t.Errorf(`a file that has changed since it was read: got %v, want "has changed meanwhile"`, err)
	}
}

// If a file with a ClusterSet is invalid YAML, FindWritten must report this. Otherwise, a command
// would report that no ClusterSet exists, and the user would write another one.
func TestWritten_NamesTheLineThatIsNotYAML(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	find := func() ([]*file.Written, error) { return file.FindWritten([]string{dir}, "penstock.dev", "ClusterSet") }
	write("a.yaml", "kind: InferencePool\nmetadata:\n  annotations: {export: ClusterSet\n")
	if found, err := find(); err != nil || len(found) != 0 {
		t.Errorf("an object of another kind is not YAML: got %+v, %v; want none", found, err)
	}
	write("b.yaml",
		"# The set.\n---\napiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: gpus}\nspec:\n  "+
			"cluster: here\n draining: true\n")
	want := filepath.Join(dir, "b.yaml") + ":8: the ClusterSet here is not YAML: "
	if found, err := find(); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%+v %v, want %s", found, err, want)
	}
	write("c.yaml", "apiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: other}\n")
	if found, err := find(); err != nil || len(found) != 1 {
		t.Errorf("another set can be read: %+v %v, want 1 of them", found, err)
	}
}

func TestWritten_FindsItemsOfAListAndJSON(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.json": `{"apiVersion": "penstock.dev/v1alpha1", "kind": "ClusterSet", "metadata": {"name": "z"}, "spec": {"cluster": "here"}}`,
		"b.yaml": "apiVersion: v1\nkind: List\nitems:\n  - apiVersion: penstock.dev/v1alpha1\n    kind: ClusterSet\n " +
			"   metadata: {name: a}\n",
		"c.yaml": "kind: ClusterSet\n: no YAML: [\n",
		".d.yml": "apiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: hidden}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := file.FindWritten([]string{dir, filepath.Join(dir, "a.json")}, "penstock.dev", "ClusterSet")
	if err != nil || len(found) != 2 || found[0].Name != "a" || found[1].Name != "z" {
		t.Fatalf("got %+v, %v; want a and z", found, err)
	}
	file.SetField(file.Field(found[1].Node, "spec"), "draining", &yaml.Node{Kind: yaml.ScalarNode, Value: "true"})
	file.SetField(found[0].Node, "spec", &yaml.Node{Kind: yaml.MappingNode})
	for _, w := range found {
		if err := w.Save(); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"a.json": `{"apiVersion": "penstock.dev/v1alpha1", "kind": "ClusterSet", "metadata": {"name": "z"}, "spec": {"cluster": "here", "draining": true}}` + "\n",
		"b.yaml": "apiVersion: v1\nkind: List\nitems:\n  - apiVersion: penstock.dev/v1alpha1\n    kind: ClusterSet\n " +
			"   metadata: {name: a}\n    spec: {}\n",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %s %v, want %s", name, got, err, want)
		}
	}
}
