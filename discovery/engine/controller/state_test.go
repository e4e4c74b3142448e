package controller_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

func TestStateFile_IsWrittenAgainAfterAFailure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deployments.json")
	if err := os.Mkdir(file, 0o700); err != nil { // makes the write fail, because no file replaces a folder
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := start(t, file)
		r.deploy("qwen", sim)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		r.engines.set("default/qwen/0", running)
		synctest.Wait()
		if raw, err := os.ReadFile(file); err != nil || !strings.Contains(string(raw), `"default/qwen/0":`) {
			t.Errorf("got %s, %v; want the port of default/qwen/0", raw, err)
		}
	})
}
