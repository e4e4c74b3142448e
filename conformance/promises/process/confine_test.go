//go:build linux

package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain is also the program that the tests confine.
func TestMain(m *testing.M) {
	if os.Getenv("HOG") == "" {
		os.Exit(m.Run())
	}
	var kept [][]byte
	for range 64 { // allocates 128 MiB
		kept = append(kept, bytes.Repeat([]byte{1}, 2<<20))
	}
	fmt.Println(len(kept))
	time.Sleep(time.Minute) // the test ends this process
}

// A process that needs more than its limit must fail the test that confines it, with its peak.
func TestConfine_KillAtTheLimitIsAFailure(t *testing.T) {
	for limit, want := range map[int64]string{64 << 20: "limit of 64 MiB", 512 << 20: ""} {
		c := Confine("test", Limits{Memory: limit, Files: 100})
		t.Cleanup(c.Release)
		t.Log(c.How())
		log := filepath.Join(t.TempDir(), "log")
		binary, args := c.Command(os.Args[0])
		p, err := Start("hog", log, binary, []string{"HOG=1"}, args...)
		if err != nil {
			t.Fatal(err)
		}
		err = Eventually(t.Context(), "the program has allocated, or has ended", func() error {
			if text, err := os.ReadFile(log); p.Running() == nil && !strings.Contains(string(text), "64") {
				return fmt.Errorf("not yet: %w", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		peak, err := c.Check(p)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("with a limit of %d MiB: %v", limit>>20, err)
		}
		if peak < 32<<20 || peak > 512<<20 {
			t.Errorf("with a limit of %d MiB, the peak is %d MiB", limit>>20, peak>>20)
		}
		_ = p.Stop(time.Second)
	}
}

func TestConfine_LimitIsTheChartsDefault(t *testing.T) {
	for _, path := range [][]string{{"resources"}, {"hub", "resources"}} {
		if limit, err := ChartMemory(t.Context(), "penstock", path...); err != nil || limit < 256<<20 {
			t.Errorf("%v: %d bytes, %v, want at least %d", path, limit, err, 256<<20)
		}
	}
	if limit, err := ChartMemory(t.Context(), "penstock", "nothing"); err == nil {
		t.Errorf("a chart without that value has a limit of %d bytes", limit)
	}
}
