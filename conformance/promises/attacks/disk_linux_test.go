package attacks

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

// fillable makes a state folder whose disk can be filled and freed. For root, the folder is a small
// file system. Without root, fill moves the folder away, and it cannot be created again.
func (s *site) fillable() (fill, free func()) {
	s.Helper()
	state := filepath.Join(s.dir, "state")
	do := func(errs ...error) {
		s.Helper()
		if err := errors.Join(errs...); err != nil {
			s.Fatal(err)
		}
	}
	do(os.Mkdir(state, 0o700))
	if err := syscall.Mount("tmpfs", state, "tmpfs", 0, "size=512k,mode=0700"); err != nil {
		s.Logf("a folder that is moved away stands in for a full disk: %v", err)
		return func() { do(os.Rename(state, state+"-aside"), os.WriteFile(state, nil, 0o600)) },
			func() { do(os.Remove(state), os.Rename(state+"-aside", state)) }
	}
	s.Cleanup(func() { _ = syscall.Unmount(state, syscall.MNT_DETACH) })
	junk := filepath.Join(state, "junk")
	fill = func() {
		s.Helper()
		if err := os.WriteFile(junk, bytes.Repeat([]byte("x"), 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			s.Fatalf("write to a full disk: got %v, want no space left", err)
		}
	}
	return fill, func() { do(os.Remove(junk)) }
}

func TestState_FullDiskEndsNothingAndLosesNothing(t *testing.T) {
	s := prepare(t, nil)
	fill, free := s.fillable()
	s.serve()
	s.attach()
	s.answers("/v1/models", "200")
	traffic := s.traffic()
	fill()
	for _, to := range []string{"one", "two", "three"} {
		// larger than the free part of a page
		s.Write("more.yaml", redirect("more", "/more", to, fmt.Sprintf("junk: %q", strings.Repeat(to, 1<<14))))
		s.answers("/more", "302 "+to)
	}
	s.Eventually("the failure is logged", func() error {
		if s.logged("last-good.jsonl") == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	free()
	s.Eventually("what is missing is written", func() error {
		if text := s.log("penstock"); !strings.Contains(text, "state is written again") {
			return errors.New("it is not")
		}
		return nil
	})
	if n := s.logged("last-good.jsonl"); n != 1 {
		t.Errorf("it is logged %d times, want 1", n)
	}
	traffic.end()
	s.restart(func() { s.Write("more.yaml", "[") })
	s.answers("/more", "302 three")
}

func TestState_ReadOnlyFolderServesFromMemory(t *testing.T) {
	s := prepare(t, nil)
	s.readOnly()
	s.ads = "unix:" + filepath.Join(s.dir, "ads.sock") // the default socket is in the read-only folder
	s.serve("--xds", s.ads)
	s.attach()
	s.answers("/v1/models", "200")
	s.Write("more.yaml", redirect("more", "/more", "one", ""))
	s.answers("/more", "302 one")
}

// `penstock up` writes sockets and files of its Envoys to the state folder.
func TestState_UpStartsWithReadOnlyFolder(t *testing.T) {
	s := prepare(t, nil)
	s.readOnly()
	temporary := filepath.Join(s.dir, "tmp")
	if err := os.Mkdir(temporary, 0o700); err != nil {
		t.Fatal(err)
	}
	s.up("ENVOY="+binaries.envoy, "TMPDIR="+temporary)
	s.answers("/v1/models", "200")
	s.Write("more.yaml", redirect("more", "/more", "one", ""))
	s.answers("/more", "302 one")
	s.stop(s.penstock)
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v %v, want none", left, err)
	}
}

func (s *site) up(env ...string) {
	s.Helper()
	var err error
	if s.penstock, err = process.Start("penstock", filepath.Join(s.dir, "penstock.log"), binaries.penstock, env,
		"up", "-f", s.Files, "--state", filepath.Join(s.dir, "state"), "--concurrency", "1", "--log-level",
		"debug"); err != nil {
		s.Fatal(err)
	}
	s.ends(s.penstock)
}

func (s *site) readOnly() {
	s.Helper()
	state := filepath.Join(s.dir, "state")
	if err := os.Mkdir(state, 0o500); err != nil {
		s.Fatal(err)
	}
	if os.Geteuid() == 0 { // root may write to a read-only folder
		if err := syscall.Mount("tmpfs", state, "tmpfs", syscall.MS_RDONLY, "size=64k,mode=0700"); err != nil {
			s.Logf("the folder takes files, because it cannot be mounted: %v", err)
		}
		s.Cleanup(func() { _ = syscall.Unmount(state, syscall.MNT_DETACH) })
	}
}

func TestState_TruncatedFilesLoseTheirTornLineAlone(t *testing.T) {
	s := start(t, map[string]string{"more.yaml": redirect("more", "/more", "one", "")})
	s.answers("/more", "302 one")
	s.Write("more.yaml", redirect("more", "/more", "two", ""))
	s.answers("/more", "302 two")
	s.Eventually("both are in the journal", func() error {
		raw, err := os.ReadFile(filepath.Join(s.dir, "state", "last-good.jsonl"))
		if err == nil && !bytes.Contains(raw, []byte(`"two"`)) {
			err = errors.New("the second is not")
		}
		return err
	})
	s.restart(func() {
		for _, name := range []string{"last-good.jsonl", "status.json"} {
			path := filepath.Join(s.dir, "state", name)
			info, err := os.Stat(path)
			if err == nil {
				err = os.Truncate(path, info.Size()-20)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		s.Write("more.yaml", "[")
	})
	s.answers("/more", "302 one")
}

func (s *site) restart(meanwhile func()) {
	s.Helper()
	s.stop(s.penstock)
	meanwhile()
	s.serve()
	// wait until Envoy has the new process's configuration
	s.Write("barrier.yaml", redirect("barrier", "/barrier", "one", ""))
	s.answers("/barrier", "302 one")
}

func (s *site) logged(file string) (n int) {
	s.Helper()
	for line := range strings.Lines(s.log("penstock")) {
		if strings.Contains(line, "cannot write state") && strings.Contains(line, file) {
			n++
		}
	}
	return n
}

func TestEnvoy_GoneProgramEndsNothing(t *testing.T) {
	s := prepare(t, nil)
	also := s.Port()
	s.Write("also.yaml", gatewayObject("also", also)+
		strings.ReplaceAll(redirect("also", "/", "one", ""), "name: gw", "name: also"))
	program := filepath.Join(s.dir, "envoy")
	if err := os.Symlink(binaries.envoy, program); err != nil {
		t.Fatal(err)
	}
	s.up("ENVOY=" + program)
	s.answers("/v1/models", "200")
	other := func() error {
		got, err := (&site{Rig: s.Rig, gateway: also}).answer("/")
		if err == nil && got != "302 one" {
			err = fmt.Errorf(`it answers %s, want "302 one"`, got)
		}
		return err
	}
	s.Eventually("the other Gateway serves", other)
	traffic := s.traffic()
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for line := range strings.Lines(s.log("penstock")) {
		if _, at, ok := strings.Cut(line, " pid="); ok && strings.Contains(line, "Envoy started") &&
			strings.Contains(line, "default/also") {
			_, _ = fmt.Sscanf(at, "%d", &pid)
		}
	}
	if pid == 0 {
		t.Fatal("no process of the other Gateway")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.Eventually("the failure is reported", func() error {
		if !strings.Contains(s.log("penstock"), "Envoy cannot be started") {
			return errors.New("it is not")
		}
		return nil
	})
	served := time.Now()
	s.Eventually("the first Gateway has served for a while", func() error {
		if time.Since(served) < time.Second {
			return errors.New("not yet")
		}
		return nil
	})
	if err := os.Symlink(binaries.envoy, program); err != nil {
		t.Fatal(err)
	}
	s.Eventually("the other Gateway serves again", other)
	traffic.end()
}
