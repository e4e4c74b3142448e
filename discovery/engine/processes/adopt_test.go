package processes

import (
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestAdopt_EngineOutlivesAKilledSupervisor(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		dir := t.TempDir()
		p := serving(t, "ns/qwen/0")
		up := startParent(t, dir, []Process{p})
		path := filepath.Join(dir, fileName(p.Name)+recordEnd)
		var r record
		poll.Until(t, "it runs", func() bool { r, _ = readRecord(path); return r.Served })
		up.kill(t, s)

		next := supervise(t, dir)
		st := stateOf(next, p.Name)
		if st.Phase != Running || st.PID != r.PID || !st.Adopted || st.Hash != p.Hash() {
			t.Fatalf("after %v: state %+v of process %d", s, st, r.PID)
		}
		next.Want([]Process{p})
		other := engine("ns/other/0", "idle")
		next.Want([]Process{p, other})
		untilPhase(t, next, other.Name, Running)
		if now := stateOf(next, p.Name); now != st {
			t.Errorf("state %+v, want %+v", now, st)
		}
		// The supervisor notices the end of the adopted process, and starts it again.
		if err := syscall.Kill(st.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		st = until(t, next, p.Name, "another process", func(now State) bool {
			return now.Phase == Running && now.PID != st.PID
		})
		if st.Adopted || st.Restarts != 1 {
			t.Errorf("state %+v", st)
		}
	}
}

func TestAdopt_OtherCommandIsStopped(t *testing.T) {
	dir := t.TempDir()
	first := supervise(t, dir)
	p := engine("ns/a/0", "idle")
	first.Want([]Process{p})
	old := untilPhase(t, first, p.Name, Running)
	first.Close()

	p.Command = append(p.Command, "more")
	next := supervise(t, dir)
	next.Want([]Process{p})
	st := until(t, next, p.Name, "another process", func(st State) bool { return st.Phase == Running && !st.Adopted })
	if st.PID == old.PID || alive(old.PID) {
		t.Errorf("the old process %d runs on, state %+v", old.PID, st)
	}
}

func TestAdopt_DownEndsWhatAnotherSupervisorStarted(t *testing.T) {
	dir := t.TempDir()
	first := supervise(t, dir)
	p := engine("ns/a/0", "idle")
	first.Want([]Process{p})
	old := untilPhase(t, first, p.Name, Running)
	first.Close()
	next := supervise(t, dir)
	if err := next.Down(t.Context()); err != nil || alive(old.PID) {
		t.Errorf("Down: %v", err)
	}
}

func TestAdopt_ReusedProcessIDIsNotAdopted(t *testing.T) {
	bystander := exec.Command(self())
	bystander.Env = []string{helperName + "=idle"}
	bystander.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bystander.Process.Kill(); _ = bystander.Wait() })
	pid := bystander.Process.Pid
	now, _ := identity(pid)

	for name, change := range map[string]func(*record){
		"another start time": func(r *record) { r.Identity = boot() + "/1" },
		"another boot":       func(r *record) { r.Identity, r.Boot = "x"+now, "x"+boot() },
	} {
		dir := t.TempDir()
		p := engine("ns/a/0", "idle")
		r := record{
			Name: p.Name, Hash: p.Hash(), Token: "t", PID: pid, Identity: now, Boot: boot(), Started: time.Now(),
			Served: true, ServedAt: time.Now(), Starts: 1, Failures: 3,
		}
		change(&r)
		if err := writeRecord(filepath.Join(dir, fileName(p.Name)+recordEnd), r); err != nil {
			t.Fatal(err)
		}
		s := supervise(t, dir)
		if st := stateOf(s, p.Name); st.Phase != Stopped || st.PID != 0 || st.Adopted {
			t.Errorf("%s: state %+v", name, st)
		}
		s.Want([]Process{p})
		if st := untilPhase(t, s, p.Name, Running); st.PID == pid {
			t.Errorf("%s: state %+v", name, st)
		}
		// A reboot is no failure of the engine.
		now, err := readRecord(filepath.Join(dir, fileName(p.Name)+recordEnd))
		if want := map[bool]int{true: 0, false: 4}[r.Boot != boot()]; err != nil || now.Failures != want {
			t.Errorf("%s: %d failures, want %d, %v", name, now.Failures, want, err)
		}
		if err := s.Down(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !alive(pid) {
			t.Fatalf("%s: another program was killed", name)
		}
	}
}

// The supervisor was killed between the start of the process and the write of its ID.
func TestAdopt_InterruptedStartIsFound(t *testing.T) {
	for _, byLog := range []bool{false, true} {
		dir := t.TempDir()
		p := engine("ns/a/0", "worker")
		path := filepath.Join(dir, fileName(p.Name))
		r := record{Name: p.Name, Hash: p.Hash(), Boot: boot(), Starts: 1}
		r.Token = fmt.Sprint("token-", os.Getpid(), byLog)
		if err := writeRecord(path+recordEnd, r); err != nil {
			t.Fatal(err)
		}
		token := r.Token
		if byLog { // some engines overwrite their environment
			token = "lost"
		}
		started, err := launch(p, mark{token: token, log: path + logEnd})
		if err != nil {
			t.Fatal(err)
		}
		worker := workerOf(t, path+logEnd) // the worker has the same token
		t.Cleanup(func() { _ = syscall.Kill(worker, syscall.SIGKILL) })
		s := supervise(t, dir)
		if st := stateOf(s, p.Name); st.PID != started.pid || !st.Adopted {
			t.Errorf("by log %v: state %+v, want process %d", byLog, st, started.pid)
		}
		s.Want([]Process{p})
		untilPhase(t, s, p.Name, Running)
		if err := s.Down(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestAdopt_KilledAtAnyMomentLosesAndDoublesNone(t *testing.T) {
	dir := t.TempDir()
	var wanted []Process
	for i := range 8 {
		wanted = append(wanted, engine(fmt.Sprintf("ns/a/%d", i), "idle"))
	}
	order := rand.New(rand.NewSource(45))
	for round := range 10 {
		up := startParent(t, dir, wanted)
		events := order.Intn(20) // changes of the folder before the kill
		before := ""
		poll.Within(300*time.Millisecond, func() bool {
			if now := listing(dir); now != before {
				before = now
				events--
			}
			return events < 0
		})
		up.kill(t, syscall.SIGKILL)
		if round%3 == 2 { // all engines start again
			next := supervise(t, dir)
			if err := next.Down(t.Context()); err != nil {
				t.Fatal(err)
			}
			next.Close()
		}
	}
	s := supervise(t, dir)
	s.Want(wanted)
	for _, p := range wanted {
		st := untilPhase(t, s, p.Name, Running)
		all := find([]mark{{log: s.Log(p.Name)}})[0]
		if len(all) != 1 || all[0].pid != st.PID {
			t.Errorf("%s: processes %v, want %d alone", p.Name, all, st.PID)
		}
	}
}

func listing(dir string) string {
	entries, _ := os.ReadDir(dir)
	var b strings.Builder
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			fmt.Fprintln(&b, entry.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}

func TestRecord_BrokenOneIsNamedAndOthersAreKept(t *testing.T) {
	dir := t.TempDir()
	first := supervise(t, dir)
	p, q := engine("ns/a/0", "idle"), engine("ns/b/0", "idle")
	first.Want([]Process{p, q})
	untilPhase(t, first, p.Name, Running)
	old, kept := untilPhase(t, first, p.Name, Running), untilPhase(t, first, q.Name, Running)
	first.Close()
	path := filepath.Join(dir, fileName(p.Name)+recordEnd)
	if err := os.WriteFile(path, []byte(`{"name":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "alien.json"), []byte(`[]`), 0o600); err != nil {
		t.Fatal(err)
	}

	next := supervise(t, dir)
	if st := stateOf(next, q.Name); st.PID != kept.PID {
		t.Errorf("state %+v, want process %d", st, kept.PID)
	}
	if poll.Within(50*time.Millisecond, func() bool { return content(t, path) != `{"name":` }) {
		t.Errorf("before anything is wanted the broken record is replaced by %q", content(t, path))
	}
	next.Want([]Process{p, q})
	// The process of the broken record is found by its log. Its command is not known.
	st := until(t, next, p.Name, "another process", func(st State) bool { return st.Phase == Running && !st.Adopted })
	if alive(old.PID) || st.PID == old.PID {
		t.Errorf("the old process %d runs on, state %+v", old.PID, st)
	}
	if content(t, path+brokenEnd) != `{"name":` {
		t.Errorf("the broken record is %q", content(t, path+brokenEnd))
	}
	poll.Until(t, "the record of no engine is set aside", func() bool {
		return content(t, filepath.Join(dir, "alien.json"+brokenEnd)) == `[]`
	})
	if r, err := readRecord(path); err != nil || r.PID != st.PID {
		t.Errorf("record %+v: %v", r, err)
	}
}

func TestRecord_InvalidOnesAreErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName("a")+recordEnd)
	for want, raw := range map[string]string{
		"unexpected end":   `{`,
		"not a record":     strings.Repeat(" ", maxRecord+1),
		"out of range":     `{"name":"a","pid":1,"token":"x","identity":"y"}`,
		"missing":          `{"name":"a","pid":7}`,
		"which belongs":    `{"name":"b"}`,
		"cannot unmarshal": `{"name":"a","pid":"x"}`,
	} {
		if err := os.WriteFile(path, []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readRecord(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestRecord_FolderThatCannotBeWrittenStartsNothing(t *testing.T) {
	dir := t.TempDir()
	s := supervise(t, dir)
	p := engine("ns/a/0", "idle")
	// A folder at the record's path makes the write fail.
	if err := os.MkdirAll(filepath.Join(dir, fileName(p.Name)+recordEnd, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Want([]Process{p})
	st := untilPhase(t, s, p.Name, Failed)
	if !strings.Contains(st.Reason, "cannot write its record") || content(t, s.Log(p.Name)) != "" {
		t.Errorf("state %+v", st)
	}
}
