package supervisor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// With SUPERVISOR_TEST_DIR, the test binary runs one Envoy. The test below kills it.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SUPERVISOR_TEST_DIR"); dir != "" {
		supervise(dir)
	}
	os.Exit(m.Run())
}

func supervise(dir string) {
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug}))
	envoy, err := NewEnvoy(EnvoyConfig{Envoy: os.Getenv("ENVOY"), Gateway: "default/edge",
		Bootstrap: []byte("node: {id: a, cluster: b}"), Args: []string{"--disable-hot-restart"}, Dir: dir, Log: log})
	if err == nil {
		err = envoy.Run(context.Background())
	}
	fmt.Println("unexpected end:", err)
	os.Exit(1)
}

func TestEnvoy_EndsWhenPenstockIsKilled(t *testing.T) {
	envoy, err := Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "ps") // t.TempDir's path is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SUPERVISOR_TEST_DIR="+dir, "ENVOY="+envoy.Path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var pid int
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if _, found, ok := strings.Cut(lines.Text(), "pid="); ok {
			if _, err := fmt.Sscan(found, &pid); err != nil {
				t.Fatal(err)
			}
		}
	}
	admin := newAdminClient(dir + "/admin.sock")
	poll.Until(t, "Envoy runs", func() bool {
		resp, err := admin.http.Get("http://envoy/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == 200
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	poll.Until(t, "Envoy has ended", func() bool {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid)
	})
}

// zombie reports whether a process has ended but was not reaped, as may happen in a container.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
