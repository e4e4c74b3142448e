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
)

// TestMain makes the test binary a program that supervises one Envoy when asked to, for the test below to kill.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PROXY_TEST_SUPERVISE"); dir != "" {
		supervise(dir)
	}
	os.Exit(m.Run())
}

// supervise logs to standard output, and the log has Envoy's pid.
func supervise(dir string) {
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p, err := NewEnvoy(EnvoyConfig{Envoy: os.Getenv("ENVOY"), Gateway: "default/edge", Bootstrap: []byte("node: {id: a, cluster: b}"), Args: []string{"--disable-hot-restart"}, Dir: dir, Log: log})
	if err == nil {
		err = p.Run(context.Background())
	}
	fmt.Println("unexpected end:", err)
	os.Exit(1)
}

func TestAKilledSupervisorLeavesNoEnvoyBehind(t *testing.T) {
	envoy, err := Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "px")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PROXY_TEST_SUPERVISE="+dir, "ENVOY="+envoy.Path)
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
	eventually(t, "Envoy runs", func() bool {
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
	eventually(t, "Envoy is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid) })
}

// zombie tells whether a process is dead and not reaped: a container's first process may not care for orphans.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
