//go:build lab && linux

package lab_test

import (
	"os/exec"
	"strings"
	"testing"
)

// program is what `make labs` builds.
const program = "../../bin/lab"

func TestCheckSaysThatALabCanStartWhereOneRuns(t *testing.T) {
	before := links()
	if out, err := exec.Command(program, "check").CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("lab check: %v: %s", err, out)
	}
	for name := range links() {
		if !before[name] {
			t.Errorf("the network interface %s is left", name)
		}
	}
}

func TestCheckNamesWhatForbidsALab(t *testing.T) {
	// A user that no namespace knows may not make any.
	out, err := exec.Command("unshare", "--user", program, "check").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "kernel.unprivileged_userns_clone") {
		t.Errorf("lab check: %v: %s", err, out)
	}
}
