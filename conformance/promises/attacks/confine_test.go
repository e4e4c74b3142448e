package attacks

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

// hog is an environment variable. With it, this test program becomes the confined process.
const hog = "HOG"

func allocate() int {
	var kept [][]byte
	for range 64 { // allocates 128 MiB
		kept = append(kept, bytes.Repeat([]byte{1}, 2<<20))
	}
	fmt.Println(len(kept))
	time.Sleep(time.Minute)
	return 0
}

func TestConfine_KillAtTheLimitIsAFailure(t *testing.T) {
	for limit, want := range map[int64]string{64 << 20: "limit of 64 MiB", 512 << 20: ""} {
		c := confine("test", limits{Memory: limit, Files: 100})
		t.Cleanup(c.release)
		t.Log(c.how())
		log := filepath.Join(t.TempDir(), "log")
		binary, args := c.command(os.Args[0])
		p, err := process.Start("hog", log, binary, []string{hog + "=1"}, args...)
		if err != nil {
			t.Fatal(err)
		}
		err = process.Eventually(t.Context(), "the program has allocated, or has ended", func() error {
			if text, err := os.ReadFile(log); p.Running() == nil && !strings.Contains(string(text), "64") {
				return fmt.Errorf("it runs and has not allocated everything, want it to, or to end: %w", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		peak, err := c.check(p)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("with a limit of %d MiB: got %v, want %q", limit>>20, err, want)
		}
		if peak < 32<<20 || peak > 512<<20 {
			t.Errorf("with a limit of %d MiB, the peak is %d MiB, want 32 to 512 MiB", limit>>20, peak>>20)
		}
		_ = p.Stop(time.Second)
	}
}

func TestConfine_LimitIsTheChartsDefault(t *testing.T) {
	for _, path := range [][]string{{"resources"}, {"hub", "resources"}} {
		if limit, err := chartMemory("penstock", path...); err != nil || limit < 256<<20 {
			t.Errorf("%v: %d bytes, %v, want at least %d", path, limit, err, 256<<20)
		}
	}
	if limit, err := chartMemory("penstock", "nothing"); err == nil {
		t.Errorf("a chart without that value has a limit of %d bytes, want an error", limit)
	}
}
