//go:build linux

package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/penstock-project/penstock/conformance/lab/sandbox"
)

func (c *container) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe") // a placeholder: enter sets the path inside the container
	cmd.Args, cmd.Err = args, nil
	cmd.Env, cmd.Dir = c.environment(), c.config.GetWorkingDir()
	cmd.WaitDelay = time.Second // for processes that outlive the command
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if uid, gid := c.user(); (uid != 0 || gid != 0) && sandbox.Users() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return cmd
}

func (s *Server) enter(c *container, cmd *exec.Cmd) error {
	s.mu.Lock()
	running := c.process != nil && c.finished.IsZero()
	s.mu.Unlock()
	if !running {
		return status.Errorf(codes.FailedPrecondition, "container %s does not run", c.id)
	}
	pidfd, err := unix.PidfdOpen(c.process.Pid, 0)
	if err != nil {
		return fmt.Errorf("enter container %s: %w", c.id, err)
	}
	defer unix.Close(pidfd)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		// Setns requires that the thread shares its root with no other thread.
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Setns(pidfd, namespaces|unix.CLONE_NEWNET)
		}
		if err == nil {
			cmd.Path, err = sandbox.LookPath(cmd.Args[0], cmd.Env)
		}
		if err == nil {
			err = cmd.Start()
		}
		done <- err
	}()
	return <-done
}

// ExecSync runs a command to its end, for exec probes and hooks.
func (s *Server) ExecSync(ctx context.Context, req *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	c, err := s.find(req.GetContainerId())
	if err != nil {
		return nil, err
	}
	if req.GetTimeout() > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(req.GetTimeout())*time.Second)
		defer cancel()
	}
	var out, errs bytes.Buffer
	cmd := c.command(ctx, req.GetCmd())
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := s.enter(c, cmd); err != nil {
		return nil, err
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return nil, status.Errorf(codes.DeadlineExceeded, "command %q timed out", req.GetCmd())
	}
	code, err := exitCode(err)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ExecSyncResponse{Stdout: out.Bytes(), Stderr: errs.Bytes(), ExitCode: int32(code)}, nil
}

func exitCode(err error) (int, error) {
	if exit := (&exec.ExitError{}); errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return 128 + int(ws.Signal()), nil
		}
		return exit.ExitCode(), nil
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		return 0, nil
	}
	return 0, err
}
