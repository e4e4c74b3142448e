//go:build lab && linux

package lab_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/penstock-project/penstock/conformance/lab/sandbox"
)

// program is built by `make labs`.
const program = "../../bin/lab"

func TestLab_CheckPassesWhereALabRuns(t *testing.T) {
	// A new network namespace hides the interfaces of other labs.
	out, err := exec.Command("unshare", "--net", "sh", "-c", program+" check && cat /proc/net/dev").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "Inter-") {
		t.Errorf("lab check: got %v: %s, want no error and no output", err, out)
	}
	if strings.Contains(string(out), "lab") {
		t.Errorf("got\n%s\nwant no network interface of a lab", out)
	}
}

func TestLab_CheckNamesMissingPrerequisites(t *testing.T) {
	// A user that is not mapped into the namespace cannot create namespaces.
	out, err := exec.Command("unshare", "--user", program, "check").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "kernel.unprivileged_userns_clone") {
		t.Errorf("lab check: got %v: %s, want kernel.unprivileged_userns_clone", err, out)
	}
}

// Without root, a lab runs in a user namespace. If the machine forbids user namespaces, the error
// names the setting.
func TestLab_CheckWithoutRootStartsOrNamesObstacle(t *testing.T) {
	if !sandbox.Users() {
		return // TestLab_CheckPassesWhereALabRuns covers machines with no user namespaces
	}
	dir, err := os.MkdirTemp("", "lab-rootless") // other users cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	raw, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(dir, "lab")
	if err := os.WriteFile(mine, raw, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(mine, "check")
	cmd.Dir = dir
	const unprivileged = 65534
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
	out, err := cmd.CombinedOutput()
	if made := err == nil && len(out) == 0; !made && !strings.Contains(string(out), "user.max_user_namespaces") {
		t.Errorf("lab check: got %v: %s, want no output, or user.max_user_namespaces", err, out)
	}
}

func TestLab_UpPrintsKubeconfigAndDownLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mine")
	t.Cleanup(func() { _ = exec.Command(program, "down", "--dir", dir).Run() }) // if the test fails early
	up := exec.Command(program, "up", "--dir", dir, "--tools", "../../.tools/bin")
	out, err := up.Output()
	if err != nil {
		t.Fatalf("lab up: %v: %s", err, out)
	}
	if want := "export KUBECONFIG=" + filepath.Join(dir, "kubeconfig") + "\n"; string(out) != want {
		t.Errorf("lab up printed %q, want %q", out, want)
	}
	links, err := linksOf(filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	in := exec.Command(program, "exec", "--dir", dir, "--", "sh", "-c", `grep -c server: "$KUBECONFIG"`)
	if out, err := in.CombinedOutput(); err != nil || string(out) != "1\n" {
		t.Errorf("lab exec: got %v: %s, want 1", err, out)
	}
	if out, err := exec.Command(program, "up", "--dir", dir, "--tools", "../../.tools/bin").
		CombinedOutput(); err == nil || !strings.Contains(string(out), "lab down --dir") {
		t.Errorf("a second lab in the folder of the first: got %v: %s, want lab down --dir", err, out)
	}
	if out, err := exec.Command(program, "down", "--dir", dir).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("lab down: got %v: %s, want no output", err, out)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the lab's folder: got %v, want it removed", err)
	}
	if left := processes(dir); len(left) > 0 {
		t.Errorf("processes after lab down: got %q, want none", left)
	}
	if left := there(links); len(left) > 0 {
		t.Errorf("network interfaces after lab down: got %q, want none", left)
	}
}
