package processes

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

const scopePrefix = "penstock-engine-"

const scopeLimit = 5 * time.Second

// scope moves a process, with its later children, into a transient scope of systemd, so that it
// leaves this program's unit. Without systemd it does nothing.
func (s *Supervisor) scope(base string, pid int) {
	if s.t.systemd == "" || scoped(pid) {
		return
	}
	if _, err := os.Stat(s.t.systemd); err != nil { // as in sd_booted(3)
		return
	}
	s.work.Go(func() {
		if err := startScope(s.ctx, s.t.busctl, base, pid); err != nil && s.ctx.Err() == nil {
			s.unscoped.Do(func() {
				s.log.Warn("systemd makes no scopes for engines: a stop of penstock's unit ends them, unless it has "+
					"KillMode=process", "error", err)
			})
		}
	})
}

// startScope calls the manager of this user, or of the system for root.
func startScope(ctx context.Context, busctl, base string, pid int) error {
	manager := "--user"
	if os.Geteuid() == 0 {
		manager = "--system"
	}
	ctx, cancel := context.WithTimeout(ctx, scopeLimit)
	defer cancel()
	id := strconv.Itoa(pid)
	// https://www.freedesktop.org/software/systemd/man/latest/org.freedesktop.systemd1.html
	cmd := exec.CommandContext(ctx, busctl, manager, "--quiet", "--allow-interactive-authorization=no",
		"call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager",
		"StartTransientUnit", "ssa(sv)a(sa(sv))", scopePrefix+base+"-"+id+".scope", "fail",
		"3", "Description", "s", "model server of penstock", "CollectMode", "s", "inactive-or-failed",
		"PIDs", "au", "1", id, "0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("busctl: %w: %s", err, bytes.TrimSpace(out[:min(len(out), 400)]))
	}
	return nil
}

func scoped(pid int) bool {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	return err == nil && strings.Contains(string(raw), "/"+scopePrefix)
}
