//go:build linux

package cri

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/penstock-project/penstock/conformance/lab/sandbox"
)

func (s *Server) root(c *container) string  { return filepath.Join(s.roots(), c.id) }
func (s *Server) layer(c *container) string { return filepath.Join(s.layers(), c.id) }

// namespaces lacks CLONE_NEWNET, because the network namespace is the pod's.
const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

func (s *Server) start(c *container) error {
	for _, dir := range []string{s.root(c), s.layer(c)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := c.log.open(); err != nil {
		return err
	}
	description, err := s.spec(c)
	if err != nil {
		return err
	}
	out, err := newPipe()
	if err != nil {
		return err
	}
	defer out.closeIn()
	errs, err := newPipe()
	if err != nil {
		return err
	}
	defer errs.closeIn()
	spec, err := newPipe()
	if err != nil {
		return err
	}
	report, err := newPipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(s.Self, s.Become...)
	cmd.Args[0] = c.config.GetMetadata().GetName()
	cmd.Env = []string{}
	cmd.Stdout, cmd.Stderr = out.in, errs.in
	cmd.ExtraFiles = []*os.File{spec.out, report.in} // sandbox.SpecFD, sandbox.ErrorFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Setsid: true}
	err = c.pod.ns.Do(cmd.Start)
	_ = spec.out.Close()
	report.closeIn()
	if err != nil {
		_ = spec.in.Close()
		_ = report.out.Close()
		return fmt.Errorf("start the process: %w", err)
	}
	s.mu.Lock()
	c.process, c.started = cmd.Process, time.Now()
	s.mu.Unlock()
	copied := make(chan struct{}, 2)
	for stream, pipe := range map[string]pipe{"stdout": out, "stderr": errs} {
		s.run.Go(func() error {
			c.log.copy(stream, pipe.out)
			_ = pipe.out.Close()
			copied <- struct{}{}
			return nil
		})
	}
	err = handOver(description, spec.in, report.out)
	s.run.Go(func() error {
		waited := cmd.Wait()
		<-copied
		<-copied
		s.ended(c, cmd.ProcessState, waited)
		return nil
	})
	return err
}

func handOver(spec sandbox.Spec, to io.WriteCloser, from io.ReadCloser) error {
	defer from.Close()
	err := json.NewEncoder(to).Encode(spec)
	_ = to.Close()
	problem, readErr := io.ReadAll(from)
	if len(problem) > 0 {
		return errors.New(string(problem))
	}
	return errors.Join(err, readErr)
}

func (s *Server) ended(c *container, state *os.ProcessState, err error) {
	c.log.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	c.finished = time.Now()
	c.exit, c.reason = -1, "Error"
	if state != nil {
		c.exit = int32(state.ExitCode())
		if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			c.exit = 128 + int32(ws.Signal())
		}
	}
	if err == nil {
		c.reason = "Completed"
	}
	close(c.done)
}

func (s *Server) spec(c *container) (sandbox.Spec, error) {
	program, err := filepath.EvalSymlinks(c.image.Program)
	if err != nil {
		return sandbox.Spec{}, fmt.Errorf("program of image %s: %w", c.image.Name, err)
	}
	security := c.config.GetLinux().GetSecurityContext()
	uid, gid := c.user()
	spec := sandbox.Spec{
		Root: s.root(c), Layer: s.layer(c), Program: program, At: c.image.At(),
		Hostname: c.pod.config.GetHostname(), Files: c.pod.files(),
		ReadOnly: security.GetReadonlyRootfs(), NoNewPrivileges: security.GetNoNewPrivs(),
		Args: c.arguments(), Env: c.environment(), Dir: c.config.GetWorkingDir(),
		UID: int(uid), GID: int(gid),
	}
	if spec.Hostname == "" {
		spec.Hostname, _ = os.Hostname()
	}
	if spec.Dir == "" {
		spec.Dir = "/"
	}
	for _, g := range append(security.GetSupplementalGroups(),
		c.pod.config.GetLinux().GetSecurityContext().GetSupplementalGroups()...) {
		spec.Groups = append(spec.Groups, int(g))
	}
	for _, m := range c.config.GetMounts() {
		// Resolve links here, because they lead elsewhere in the container's root.
		source, err := filepath.EvalSymlinks(m.GetHostPath())
		if err != nil {
			return sandbox.Spec{}, fmt.Errorf("mount %s: %w", m.GetContainerPath(), err)
		}
		spec.Mounts = append(spec.Mounts, sandbox.Mount{
			Source: source, Target: m.GetContainerPath(), ReadOnly: m.GetReadonly(),
		})
	}
	return spec, nil
}

type pipe struct{ out, in *os.File }

func newPipe() (pipe, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return pipe{}, fmt.Errorf("pipe: %w", err)
	}
	return pipe{r, w}, nil
}

func (p pipe) closeIn() { _ = p.in.Close() }

var _ runtimeapi.RuntimeServiceServer = (*Server)(nil)
