package features

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// fixture selects and edits documents of a YAML file. A document after a line "--- # NAME..." is
// written only if a test gives one of the names.
type fixture struct {
	parts []string
	swaps [][2]string
}

type edit func(*fixture)

func with(parts ...string) edit {
	return func(f *fixture) { f.parts = append(f.parts, parts...) }
}

// swap replaces a text that the YAML must contain.
func swap(old, by string) edit {
	return func(f *fixture) { f.swaps = append(f.swaps, [2]string{old, by}) }
}

func (s *site) write(name string, edits ...edit) {
	s.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		s.Fatal(err)
	}
	var f fixture
	for _, e := range edits {
		e(&f)
	}
	out, missing := f.documents(string(text))
	if len(missing) > 0 {
		s.Fatalf("%s has no part %v", name, missing)
	}
	for _, w := range f.swaps {
		if !strings.Contains(out, w[0]) {
			s.Fatalf("%s has no %q", name, w[0])
		}
		out = strings.ReplaceAll(out, w[0], w[1])
	}
	out = s.expanded(out)
	for document := range strings.SplitSeq("---\n"+out, "\n---") {
		_, text, _ := strings.Cut(document, "\n") // text after the separator's line
		if err := yaml.Unmarshal([]byte(text), new(map[string]any)); err != nil {
			s.Fatalf("%s: %v in\n%s", name, err, document)
		}
	}
	s.Write("site.yaml", out)
}

func (s *site) expanded(text string) string {
	s.Helper()
	return os.Expand(text, func(port string) string {
		at, ok := s.ports[port]
		if !ok {
			s.Errorf("the YAML has port %s, which the test does not have", port)
		}
		return fmt.Sprint(at)
	})
}

func (f fixture) documents(text string) (string, []string) {
	var out strings.Builder
	written, missing := true, slices.Clone(f.parts)
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "---"); ok {
			parts := strings.Fields(strings.TrimPrefix(strings.TrimSpace(rest), "#"))
			written = len(parts) == 0 || slices.ContainsFunc(parts,
				func(p string) bool { return slices.Contains(f.parts, p) })
			missing = slices.DeleteFunc(missing, func(p string) bool { return slices.Contains(parts, p) })
		}
		if written {
			out.WriteString(line)
		}
	}
	return out.String(), missing
}
