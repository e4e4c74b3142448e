//go:build engines

package features

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/penstock-project/penstock/discovery/engine/memory"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

var (
	cacheSize  = regexp.MustCompile(`llama_kv_cache: size = +([0-9.]+) MiB`)
	weightSize = regexp.MustCompile(`load_tensors: .* model buffer size = +([0-9.]+) MiB`)
)

// The estimates must equal the sizes that llama.cpp prints. With --parallel, requests share the
// context.
func TestEngines_LlamaCppReservesWhatIsEstimated(t *testing.T) {
	s := newSite(t)
	gguf := s.llamaServerOnPath()
	model, err := memory.Read(gguf)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args     []string
		settings memory.Settings
	}{
		{nil, memory.Settings{Keys: "f16", Values: "f16"}},
		{[]string{"--ctx-size", "8192", "--parallel", "2"}, memory.Settings{Context: 8192, Keys: "f16", Values: "f16"}},
		{[]string{"--ctx-size", "65536", "--cache-type-k", "q8_0", "--cache-type-v", "q4_0", "--flash-attn", "on"},
			memory.Settings{Context: 65536, Keys: "q8_0", Values: "q4_0"}},
		{[]string{"--ctx-size", "8192", "--cache-type-k", "f32", "--cache-type-v", "q5_1", "--flash-attn", "on"},
			memory.Settings{Context: 8192, Keys: "f32", Values: "q5_1"}},
	} {
		need, known := memory.Estimate(model, c.settings)
		cache, weights := s.reserved(gguf, c.args)
		for what, sizes := range map[string][2]float64{"cache": {cache, mib(need.Cache)}, "weights": {weights,
			mib(need.Weights)}} {
			if got, want := sizes[1], sizes[0]; !known || math.Abs(got-want) > 0.011 {
				t.Errorf("%v: got %.2f MiB for %s, want %.2f, as llama.cpp prints", c.args, got, what, want)
			}
		}
	}
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// reserved starts llama.cpp's server, and returns the sizes in MiB that it prints.
func (s *site) reserved(gguf string, args []string) (cache, weights float64) {
	s.Helper()
	path := filepath.Join(s.TempDir(), "log")
	log, err := os.Create(path)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	tools, err := filepath.Abs(filepath.Join("..", "tools", "engines", "llama-server"))
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.Command(tools, append([]string{"--host", "127.0.0.1", "--port", strconv.Itoa(s.Port()), "--model", gguf,
		"--verbosity", "5"}, args...)...)
	cmd.Env = append(os.Environ(), "ENGINES_DIR="+installed())
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
	}()
	var text []byte
	listens := regexp.MustCompile(`listening at`)
	poll.NoError(s, "llama.cpp's server listens", engineLimit, func() (err error) {
		text, err = os.ReadFile(path)
		return errors.Join(err, because(listens.Match(text), string(text)))
	})
	last := func(size *regexp.Regexp) float64 { // the last match, because llama.cpp prints an estimate first
		all := size.FindAllSubmatch(text, -1)
		if len(all) == 0 {
			s.Fatalf("got no %v, want one in\n%s", size, text)
		}
		n, err := strconv.ParseFloat(string(all[len(all)-1][1]), 64)
		if err != nil {
			s.Fatal(err)
		}
		return n
	}
	return last(cacheSize), last(weightSize)
}
