package app

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStateFolder_ItsLossIsLoggedOnce(t *testing.T) {
	for name, lose := range map[string]func(dir string) error{
		"kept":    func(string) error { return nil },
		"removed": os.RemoveAll,
		"replaced": func(dir string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			return os.Mkdir(dir, 0o700)
		},
	} {
		dir := filepath.Join(t.TempDir(), "state")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			a := &App{core: core{log: slog.New(slog.NewTextHandler(&log, nil))}, cfg: Config{StateDir: dir}}
			go func() { _ = a.watchState(t.Context()) }()
			time.Sleep(lookForState / 2)
			if err := lose(dir); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * lookForState)
			synctest.Wait()
			want := 1
			if name == "kept" {
				want = 0
			}
			if got := strings.Count(log.String(), "the state folder was removed"); got != want {
				t.Errorf("%s: %d lines, want %d: %s", name, got, want, log.String())
			}
		})
	}
}
