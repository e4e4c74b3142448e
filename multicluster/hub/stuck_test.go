package hub

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// A member's kubeconfig is a FIFO, so reading it never ends, or it names such a file. The hub must
// report this as a problem of the member.
func TestHub_KubeconfigThatNeverEndsIsAFinding(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "east.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	west := `{"apiVersion": "v1", "kind": "Config", "current-context": "a",
"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
"clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}], "users": [{"name": "a", "user": {"tokenFile": "east.yaml"}}]}`
	if err := os.WriteFile(filepath.Join(dir, "west.yaml"), []byte(west), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &Hub{cfg: Config{Kubeconfigs: dir, Disk: &filesystem.Disk{}}}
	for name, want := range map[string]string{
		"east": "spec.members[east].kubeconfig.file: it cannot be read: ", "west": "tokenFile of user a: ",
	} {
		m := &v1alpha1.ClusterSetMember{Name: name, Kubeconfig: &v1alpha1.ClusterSetKubeconfig{File: name + ".yaml"}}
		_, err := h.byKubeconfig(m)
		irregular := "east.yaml: " + filesystem.ErrIrregular.Error()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), irregular) {
			t.Errorf("%s: got %v, want %s and %s", name, err, want, irregular)
		}
	}
}

func TestHub_HungMountIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{cfg: Config{Disk: &filesystem.Disk{}}}
		answers := make(chan struct{})
		defer close(answers)
		hang := func() (int, error) { <-answers; return 0, nil }
		_, _ = filesystem.Do(t.Context(), h.cfg.Disk, "/mount/east.yaml", hang)
		if why := h.Stuck(); why != "" {
			t.Errorf("after the timeout of one read: got %s, want nothing", why)
		}
		time.Sleep(filesystem.StuckAfter)
		if why := h.Stuck(); !strings.Contains(why, "/mount/east.yaml has been read for half a minute") {
			t.Errorf(`stuck: %q, want a text with "/mount/east.yaml has been read for half a minute"`, why)
		}
	})
}
