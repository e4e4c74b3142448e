package image

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func program(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestImage_NameResolvesToProgram(t *testing.T) {
	table := Open(filepath.Join(t.TempDir(), "images.yaml"))
	short, long, tagged := program(t, "short"), program(t, "long"), program(t, "tagged")
	if err := table.Load(Image{Name: "echo", Program: short}, Image{Name: "example.com/team/echo", Program: long},
		Image{Name: "echo:v2", Program: tagged}); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"echo":                            short,
		"echo:v1":                         short,
		"registry.example.com:5000/echo":  short,
		"registry/echo@sha256:0123":       short,
		"registry/echo:v1@sha256:0123":    short,
		"example.com/team/echo:v1":        long,
		"registry.example.com/a/echo:v2":  tagged,
		"other.example.com/my-echo":       "",
		"other.example.com/echo/frontend": "",
	} {
		got, err := table.Find(ref)
		if got.Program != want || (want == "") != errors.Is(err, ErrUnknown) {
			t.Errorf("%s stands for %q (%v), want %q", ref, got.Program, err, want)
		}
	}
	if _, err := table.Find("example/unknown:v1"); err == nil ||
		!strings.Contains(err.Error(), "lab load example/unknown PROGRAM") {
		t.Errorf("an unknown image: got %v, want lab load example/unknown PROGRAM", err)
	}
}

func TestImage_LoadedAgainIsReplaced(t *testing.T) {
	table := Open(filepath.Join(t.TempDir(), "images.yaml"))
	one, two := program(t, "one"), program(t, "two")
	for _, p := range []string{one, two} {
		if err := table.Load(Image{Name: "app", Program: p}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := table.List()
	if err != nil || len(list) != 1 || list[0].Program != two || list[0].At() != "/usr/local/bin/two" {
		t.Errorf("got %+v, %v, want one image at /usr/local/bin/two", list, err)
	}
}

func TestImage_NonProgramIsInvalid(t *testing.T) {
	table := Open(filepath.Join(t.TempDir(), "images.yaml"))
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{text, t.TempDir(), filepath.Join(t.TempDir(), "missing")} {
		if err := table.Load(Image{Name: "app", Program: path}); err == nil {
			t.Errorf("%s was loaded, want an error", path)
		}
	}
}

func TestImage_DefaultsAreBuiltPrograms(t *testing.T) {
	envoy, echo := program(t, "my-envoy"), program(t, "echo-basic")
	found := map[string]Image{}
	for _, i := range Known(envoy, t.TempDir(), filepath.Dir(echo)) {
		found[i.Name] = i
	}
	if len(found) != 3 || found["echo-basic"].Program != echo || found["envoyproxy/envoy"].Program != envoy ||
		found["envoyproxy/envoy"].At() != "/usr/local/bin/envoy" {
		t.Errorf("got %+v, want 3 images with the programs echo-basic and envoy", found)
	}
}
