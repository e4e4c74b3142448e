package gatewayapi_test

import (
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/penstock-project/penstock/translator/gatewayapi"
)

// golden calls each for each file in testdata. A file begins with a user's loss if the test fails.
// Then it has the user's objects, and all decisions and reports. `make golden` rewrites the last
// part.
func golden(t *testing.T, each func(t *testing.T, file string, archive *txtar.Archive, cfg gatewayapi.Config)) {
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
			if len(archive.Files) == 1 {
				archive.Files = append(archive.Files, txtar.File{Name: "decided"})
			}
			cfg := gatewayapi.Config{AnyClass: !strings.Contains(file, "class")}
			each(t, file, archive, cfg)
		})
	}
}

func TestGatewayAPI_Golden(t *testing.T) {
	golden(t, func(t *testing.T, file string, archive *txtar.Archive, cfg gatewayapi.Config) {
		got := decide(view(t, operations(t, string(archive.Files[0].Data))), cfg).String()
		if os.Getenv("PENSTOCK_GOLDEN") == "rewrite" {
			archive.Files[1].Data = []byte(got)
			if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		if diff := cmp.Diff(string(archive.Files[1].Data), got); diff != "" {
			t.Errorf("decided otherwise (-want +got):\n%s", diff)
		}
	})
}

func TestGatewayAPI_OrderOfArrivalChangesNothing(t *testing.T) {
	golden(t, func(t *testing.T, _ string, archive *txtar.Archive, cfg gatewayapi.Config) {
		ops := operations(t, string(archive.Files[0].Data))
		want := decide(view(t, ops), cfg).String()
		random := rand.New(rand.NewSource(1))
		for range 20 {
			random.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
			w := decide(view(t, ops), cfg)
			random.Shuffle(len(w.passed), func(i, j int) { w.passed[i], w.passed[j] = w.passed[j], w.passed[i] })
			if diff := cmp.Diff(want, w.String()); diff != "" {
				t.Fatalf("another order (-want +got):\n%s", diff)
			}
		}
	})
}
