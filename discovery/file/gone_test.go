package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/penstock-project/penstock/discovery/store"
)

// Removed files must take no memory, because tools that write one file per object always use new
// names.
func TestFolder_FilesThatAreGoneTakeNoMemory(t *testing.T) {
	dir := t.TempDir()
	r, err := New(Config{Paths: []string{dir}, Store: store.New(), StateDir: filepath.Join(t.TempDir(), "state"),
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		path, next := filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), filepath.Join(dir, fmt.Sprintf("%d.yaml", i+1))
		// Every second file has the same object as the file before.
		object := fmt.Sprintf(
			"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r%d}\nspec: {parentRefs: "+
				"[{name: gw}]}\n", i/2)
		write, remove := os.WriteFile(next, []byte(object), 0o600), os.RemoveAll(path)
		if err := errors.Join(write, remove, r.sync(context.Background(), once(false, path, next))); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.files) != 1 || len(r.persistedRefs()) != 1 ||
		len(r.kept) != 0 || len(r.claims) != 0 || len(r.emptied) != 0 {
		t.Errorf("with one file and one plain object there are %d files, %d objects, %d of them not plain, %d "+
			"definitions of such objects and %d empty files; want 1, 1, 0, 0, 0",
			len(r.files), len(r.persistedRefs()), len(r.kept), len(r.claims), len(r.emptied))
	}
}
