package features

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/docs"
	"github.com/penstock-project/penstock/conformance/promises/process"
	"github.com/penstock-project/penstock/conformance/promises/process/processtest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

const pageLimit = 2 * time.Minute

// The commands of each page in docs/ work in an empty folder, and print the text on the page. Pages
// run concurrently if the machine has network namespaces.
func TestDocs_CommandsOfPagesRun(t *testing.T) {
	pages, err := docs.Pages()
	if err != nil {
		t.Fatal(err)
	}
	prefix := isolation()
	for _, page := range pages {
		if !page.Runs() {
			continue
		}
		t.Run(page.Name, func(t *testing.T) {
			if err := missingProgram(page); err != nil {
				t.Skipf("the page runs a program that is not here (CONTRIBUTING.md names those needed): %v", err)
			}
			if len(prefix) > 0 {
				t.Parallel()
			}
			runPage(t, page, prefix)
		})
	}
}

func missingProgram(page docs.Page) error {
	for _, program := range []string{"curl", "openssl"} {
		runs := func(b docs.Block) bool {
			return b.Lang == "sh" && b.Tag == "test" && strings.Contains(b.Text, program+" ")
		}
		if !slices.ContainsFunc(page.Blocks, runs) {
			continue
		}
		if _, err := exec.LookPath(program); err != nil {
			return err
		}
	}
	return nil
}

func TestDocs_PageOfAMissingProgramIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for text, want := range map[string]bool{"curl -s localhost": true, "x | openssl x509": true, "penstock up": false} {
		page := docs.Page{
			Blocks: []docs.Block{{Lang: "sh", Tag: "test", Text: text}, {Lang: "sh", Tag: "lab", Text: "curl x"}},
		}
		if err := missingProgram(page); (err != nil) != want {
			t.Errorf("%s: got %v, want an error: %v", text, err, want)
		}
	}
}

// isolation returns a command that runs bash with its own ports and processes; nil: the machine has
// no such namespaces.
func isolation() []string {
	for _, flags := range [][]string{nil, {"--map-root-user"}} {
		prefix := append([]string{"unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"}, flags...)
		prefix = append(prefix, "bash", "-c", `ip link set lo up && exec "$@"`, "page")
		if exec.Command(prefix[0], append(prefix[1:], "true")...).Run() == nil {
			return prefix
		}
	}
	return nil
}

var externalBuilt = sync.OnceValue(func() error {
	_, err := process.Build(context.Background(), filepath.Dir(binary), "penstock-external")
	return err
})

func runPage(t *testing.T, page docs.Page, prefix []string) {
	if strings.Contains(page.Text, "\npenstock-external ") {
		if err := externalBuilt(); err != nil {
			t.Fatal(err)
		}
	}
	s := newShell(t, prefix)
	for i, b := range page.Blocks {
		if b.Tag != "test" {
			continue
		}
		at := fmt.Sprintf("docs/%s.md:%d", page.Name, b.Line)
		switch b.Lang {
		case "sh":
			shown := ""
			if next := page.Blocks[i+1:]; len(next) > 0 && next[0].Lang == "text" && next[0].Tag == "test" {
				shown = next[0].Text
			}
			if shown != "" && strings.HasSuffix(strings.TrimSpace(b.Text), "&") { // more output follows
				shown = "...\n" + shown + "...\n"
			}
			s.run(at, b.Text, shown)
		case "text": // compared by run
		default:
			s.write(at, b.Arg, b.Text)
		}
	}
}

type shell struct {
	testing.TB
	page  string
	files string // folder of commands and outputs
	input io.WriteCloser
	ended chan struct{}
	count int
}

// newShell starts a bash that ends with the test, together with all processes of the page.
func newShell(t *testing.T, prefix []string) *shell {
	t.Helper()
	s := &shell{TB: t, files: processtest.ShortDir(t), ended: make(chan struct{})}
	s.page = filepath.Join(s.files, "page")
	home, bin := filepath.Join(s.files, "home"), filepath.Join(s.files, "bin")
	for _, dir := range []string{s.page, home, bin} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(envoy, filepath.Join(bin, "envoy")); err != nil {
		t.Fatal(err)
	}
	args := append(prefix, "bash")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.SysProcAttr = s.page, &syscall.SysProcAttr{Setpgid: true}
	path := strings.Join([]string{filepath.Dir(binary), bin, os.Getenv("PATH")}, ":")
	cmd.Env = append(os.Environ(), "PATH="+path, "ENVOY="+envoy, "HOME="+home, "XDG_STATE_HOME=", "LC_ALL=C")
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.input = input
	go func() {
		_ = cmd.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() { s.end(cmd.Process.Pid) })
	return s
}

func (s *shell) end(group int) {
	_ = s.input.Close()
	_ = syscall.Kill(-group, syscall.SIGTERM)
	gone := func() bool { return errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) }
	if !poll.Within(process.Limit, gone) {
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
	<-s.ended
}

func (s *shell) write(at, name, text string) {
	s.Helper()
	path := filepath.Join(s.page, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.Fatalf("%s: %v", at, err)
	}
	rig := processtest.Rig{TB: s, Files: filepath.Dir(path)}
	rig.Write(filepath.Base(path), text)
}

// run sends commands to bash, and waits until they have ended and printed shown. If shown is empty,
// each command must succeed.
func (s *shell) run(at, text, shown string) {
	s.Helper()
	s.count++
	base := filepath.Join(s.files, fmt.Sprint(s.count))
	if err := os.WriteFile(base+".sh", []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	mode := "set -e"
	if shown != "" {
		mode = "set +e"
	}
	line := fmt.Sprintf("%s; eval \"$(<%s.sh)\" </dev/null >%[2]s.out 2>&1; : >%[2]s.done\n", mode, base)
	if _, err := io.WriteString(s.input, line); err != nil {
		s.Fatalf("%s: %v", at, err)
	}
	output := func() string {
		out, _ := os.ReadFile(base + ".out")
		return string(out)
	}
	done := func() bool {
		select {
		case <-s.ended:
			s.Fatalf("%s: a command has failed; the commands printed:\n%s", at, output())
		default:
		}
		_, err := os.Stat(base + ".done")
		return err == nil
	}
	if !poll.Within(pageLimit, done) {
		s.Fatalf("%s: the commands have not ended in %s; they printed:\n%s", at, pageLimit, output())
	}
	if shown != "" && !poll.Within(process.Limit, func() bool { return docs.Match(shown, output()) }) {
		s.Fatalf("%s: printed:\n%s\nwant, as the page shows:\n%s", at, output(), shown)
	}
	s.Logf("%s printed:\n%s", at, output())
}
