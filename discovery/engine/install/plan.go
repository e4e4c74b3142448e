package install

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Machine describes the machine that a Plan is for.
type Machine struct {
	OS string // runtime.GOOS
	// LookPath is exec.LookPath.
	LookPath func(program string) (string, error)
	// Python returns the version of a Python program, such as "3.12", or an error if the program
	// cannot make a virtual environment.
	Python func(program string) (version string, err error)
	// Free returns how many bytes this user may still write into a folder. nil: statfs is used.
	Free func(folder string) (int64, error)
}

func free(folder string) (int64, error) {
	var s syscall.Statfs_t
	err := syscall.Statfs(folder, &s)
	return int64(s.Bavail) * int64(s.Bsize), err
}

// Plan lists the steps that install an engine.
type Plan struct {
	Program string
	About   string   // describes what is installed
	Notes   []string // shown to the user after the installation
	Link    string   // the link that Find follows; "": the program is installed elsewhere
	Steps   []Step
	folder  string
	name    string // ENGINE-VERSION
	target  string // the hidden folder with the virtual environment
	bytes   int64
	free    func(folder string) (int64, error)
}

// Step is a command with its time limit, or a file to write.
type Step struct {
	Command []string
	Limit   time.Duration
	Path    string
	Content string
	Mode    uint32
}

// New makes the plan that installs an engine's version on machine m. folder has the installed
// engines. cpu selects the variant of vllm for the CPU.
func New(engine, version, folder string, cpu bool, m Machine) (*Plan, error) {
	program, ok := programs[engine]
	if !ok {
		return nil, unknown(engine)
	}
	if cpu && engine != "vllm" {
		return nil, fmt.Errorf("--cpu is for vllm alone: penstock installs %s for one kind of machine", engine)
	}
	p := &Plan{Program: program, folder: folder, name: engine + "-" + version, free: m.Free}
	if p.free == nil {
		p.free = free
	}
	switch m.OS {
	case "darwin":
		return p, p.mac(engine, m)
	case "linux":
		return p, p.linux(engine, cpu, m)
	}
	return nil, fmt.Errorf("penstock installs no engines on %s", m.OS)
}

func (p *Plan) mac(engine string, m Machine) error {
	if engine != "llama-cpp" {
		return errors.New("PyPI has no vLLM for macOS: run the model in llama-cpp, or build vLLM as " +
			"https://docs.vllm.ai describes, and put the program vllm on PATH")
	}
	brew, err := m.LookPath("brew")
	if err != nil {
		return errors.New("the program brew is not on PATH: install Homebrew (https://brew.sh), then run this " +
			"command again; or put a llama-server of yours on PATH")
	}
	p.About = "the newest llama.cpp of Homebrew"
	p.Steps = []Step{{Command: []string{brew, "install", "llama.cpp"}, Limit: loads}}
	return nil
}

func (p *Plan) linux(engine string, cpu bool, m Machine) error {
	key := engine
	if cpu {
		key += " --cpu"
	}
	r := recipes[key]
	if _, err := m.LookPath("nvidia-smi"); engine == "vllm" && !cpu && err != nil {
		return errors.New("the program nvidia-smi is not on PATH, and the vllm of PyPI needs an accelerator of NVIDIA" +
			": install NVIDIA's driver; or add --cpu for " + recipes["vllm --cpu"].about + "; or, for another " +
			"accelerator, install vLLM as https://docs.vllm.ai describes, and put the program vllm on PATH")
	}
	python, version, err := choose(r.pythons, m)
	if err != nil {
		return fmt.Errorf("%s needs %w", p.name, err)
	}
	if p.About, p.bytes = r.about, r.bytes; engine == "llama-cpp" {
		p.Notes = []string{"It computes on the CPU. A llama-server with CUDA, ROCm or Vulkan that is on PATH comes " +
			"before it, for example of: conda install -c conda-forge llama-cpp"}
	}
	p.Link = filepath.Join(p.folder, p.name)
	p.target = filepath.Join(p.folder, fmt.Sprintf(".%s-%s-py%s", p.name, r.packages, version))
	list := filepath.Join(p.target, "packages.txt")
	inside := filepath.Join(p.target, "bin", "python")
	p.Steps = []Step{
		{Command: []string{python, "-m", "venv", p.target}, Limit: quick},
		{Path: list, Content: packages(r.packages), Mode: 0o600},
		{Command: []string{inside, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-deps",
			"--only-binary", ":all:", "--requirement", list}, Limit: loads},
	}
	if r.files != nil {
		files := r.files("lib/python" + version + "/site-packages")
		for _, name := range slices.Sorted(maps.Keys(files)) {
			p.Steps = append(p.Steps, Step{Path: filepath.Join(p.target, name), Content: files[name], Mode: 0o700})
		}
	}
	p.Steps = append(p.Steps, Step{Command: []string{filepath.Join(p.target, "bin", p.Program), "--version"},
		Limit: checks})
	return nil
}

// choose returns a Python program whose minor version is within limits, and its version.
func choose(limits [2]int, m Machine) (program, version string, err error) {
	names := []string{"python3"}
	for minor := min(limits[1], newest); minor >= limits[0]; minor-- {
		names = append(names, fmt.Sprintf("python3.%d", minor))
	}
	var seen []string
	for _, name := range names {
		path, err := m.LookPath(name)
		if err != nil {
			continue
		}
		version, err := m.Python(path)
		if err != nil {
			seen = append(seen, fmt.Sprintf("%s %v", name, err))
			continue
		}
		minor := 0
		_, err = fmt.Sscanf(version, "3.%d", &minor)
		if err == nil && minor >= limits[0] && minor <= limits[1] {
			return path, version, nil
		}
		seen = append(seen, name+" is "+version)
	}
	if len(seen) == 0 {
		seen = []string{"there is none on PATH"}
	}
	wants := fmt.Sprintf("3.%d or newer", limits[0])
	if limits[1] < newest {
		wants = fmt.Sprintf("3.%d to 3.%d", limits[0], limits[1])
	}
	return "", "", fmt.Errorf("Python %s with venv (%s): install it, on Debian and Ubuntu with apt install python3 "+
		"python3-venv, then run this command again", wants, strings.Join(seen, "; "))
}

// newest is the greatest minor version of Python 3 that choose looks for.
const newest = 19

// Script returns the plan as a shell script for sh.
func (p *Plan) Script() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %s\nset -eu\n", p.name, p.About)
	if p.Link != "" {
		fmt.Fprintf(&b, "mkdir -p %s\n", quoted(p.folder))
	}
	for _, s := range p.Steps {
		if s.Path == "" {
			b.WriteString(s.line() + "\n")
			continue
		}
		fmt.Fprintf(&b, "mkdir -p %s\ncat > %s <<'END'\n%s\nEND\nchmod %o %[2]s\n", quoted(filepath.Dir(s.Path)),
			quoted(s.Path), strings.TrimSuffix(s.Content, "\n"), s.Mode)
	}
	if p.Link != "" {
		fmt.Fprintf(&b, "ln -sfn %s %s\n", quoted(filepath.Base(p.target)), quoted(p.Link))
	}
	return b.String()
}

func (s Step) line() string {
	words := make([]string, len(s.Command))
	for i, word := range s.Command {
		words[i] = quoted(word)
	}
	return strings.Join(words, " ")
}

func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("/._-=:+", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
