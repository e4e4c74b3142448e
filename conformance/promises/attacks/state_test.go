package attacks

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Another user of the machine creates the state folder first, and puts a status, a last valid
// object or a socket there. Penstock must not start.
func TestState_FolderOfAnotherUserIsNotUsed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("without root no folder of another user can be made: the folder of root is used instead")
	}
	s := prepare(t, nil)
	planted := filepath.Join(s.dir, "planted")
	if err := os.Mkdir(planted, 0o777); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(planted, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	} else {
		planted = "/"
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second) // a penstock that starts would not end
	defer stop()
	out, err := exec.CommandContext(ctx, binaries.penstock, "serve", "-f", s.Files, "--state", planted, "--picker",
		local(s.picker)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "choose another folder with --state") {
		t.Errorf("serve in the folder of another user: got %v: %s, want choose another folder with --state", err, out)
	}
	files, err := os.ReadDir(planted)
	if err != nil || planted != "/" && len(files) != 0 {
		t.Errorf("files in the folder of another user: got %v, %v, want none", files, err)
	}
}

func TestState_FolderIsPrivate(t *testing.T) {
	s := start(t, nil)
	info, err := os.Stat(filepath.Join(s.dir, "state"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the mode of the state folder: got %v %v, want 0700", info, err)
	}
}
