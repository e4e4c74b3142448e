//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/image"
	"github.com/penstock-project/penstock/conformance/lab/retry"
)

const (
	readyFD    = 3 // receives "ready" or the error
	lifelineFD = 4 // a lab with Lifeline ends at EOF of this descriptor
)

func newUp() *cobra.Command {
	var s state
	cmd := &cobra.Command{
		Use:   "up",
		Short: "start a lab and print the KUBECONFIG",
		Args:  cobra.NoArgs,
		Example: `  lab up                       one cluster
  lab up --clusters 3          three, which reach each other's pods and LoadBalancers
  export KUBECONFIG=.lab/kubeconfig; kubectl --context lab2 get pods -A`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return up(cmd.Context(), s, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	addDir(cmd, &s.Dir)
	cmd.Flags().IntVar(&s.Clusters, "clusters", 1, "number of clusters, named lab1, lab2 and so on")
	cmd.Flags().StringVar(&s.Tools, "tools", ".tools/bin",
		"the folder with the programs of a cluster and its pods (make labs builds them)")
	cmd.Flags().StringArrayVar(&s.CRDs, "crds", nil,
		"a file or folder of CustomResourceDefinitions to apply before the lab is ready (repeatable; default: the "+
			"CRDs of\nGateway API's experimental channel, the inference extension and Penstock, in the releases that "+
			"the go.mod here names)")
	cmd.Flags().StringVar(&s.ReleasesOf, "releases-of", "",
		"a folder whose go.mod names the releases of Gateway API and the inference extension, instead of the one here")
	cmd.Flags().BoolVar(&s.Audit, "audit", false,
		"have each API server log user, request and response code to audit.log, next to its own log")
	cmd.Flags().BoolVar(&s.Lifeline, "until-eof", false, "stay, and end the lab when standard input ends")
	return cmd
}

func up(ctx context.Context, s state, in io.Reader, out io.Writer) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	ready, lifeline, wait, err := s.start()
	if err != nil {
		_ = os.RemoveAll(s.Dir)
		return err
	}
	defer lifeline.Close()
	if err := s.await(ctx, ready); err != nil {
		return errors.Join(err, s.end())
	}
	fmt.Fprintf(out, "export KUBECONFIG=%s\n", s.kubeconfig())
	if !s.Lifeline {
		return nil
	}
	eof := make(chan struct{})
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, in)
		close(eof)
	}()
	select {
	case <-eof:
	case <-ctx.Done():
	case err = <-wait:
		err = fmt.Errorf("the lab ended: %w; see %s", err, s.log())
		return err
	}
	return s.end()
}

func (s *state) prepare(ctx context.Context) error {
	for _, path := range []*string{&s.Dir, &s.Tools} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("%s: %w", *path, err)
		}
		*path = abs
	}
	for i, path := range s.CRDs {
		abs, err := filepath.Abs(path)
		if err != nil {
			return fmt.Errorf("--crds %s: %w", path, err)
		}
		s.CRDs[i] = abs
	}
	if s.Clusters < 1 {
		return fmt.Errorf("--clusters %d: at least one is needed", s.Clusters)
	}
	if strings.HasPrefix(s.Dir+"/", private+"/") {
		return fmt.Errorf("--dir %s: choose a folder outside %s, which a lab mounts over", s.Dir, private)
	}
	for _, name := range []string{"kubernetes", "etcd", "coredns"} {
		if _, err := exec.LookPath(filepath.Join(s.Tools, name)); err != nil {
			return fmt.Errorf("the program %s is missing in %s: make labs builds it (once, some minutes)", name,
				s.Tools)
		}
	}
	if err := needsNft(); err != nil {
		return err
	}
	if old, err := load(s.Dir); err == nil && old.alive() {
		return fmt.Errorf("a lab is already running in %s: end it with lab down --dir %s", s.Dir, s.Dir)
	}
	s.Rootless = os.Geteuid() != 0
	if err := os.RemoveAll(s.Dir); err != nil {
		return fmt.Errorf("remove an earlier lab's remains: %w", err)
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	if len(s.CRDs) == 0 {
		crds, err := lab.CRDs(ctx, s.Dir, s.ReleasesOf)
		if err != nil {
			return err
		}
		s.CRDs = crds
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := image.Open(s.images()).Load(image.Known(os.Getenv("ENVOY"), s.Tools, filepath.Dir(self))...); err != nil {
		return err
	}
	return s.save()
}

func needsNft() error {
	if _, err := exec.LookPath("nft"); err != nil {
		return errors.New(
			"kube-proxy needs the program nft, which is missing: install nftables (Debian: apt install nftables)")
	}
	return nil
}

// start starts the lab's PID 1. ready delivers one report. Closing lifeline ends the lab if
// s.Lifeline is set. wait delivers the exit of PID 1.
func (s *state) start() (ready io.Reader, lifeline io.Closer, wait <-chan error, err error) {
	log, err := os.Create(s.log())
	if err != nil {
		return nil, nil, nil, err
	}
	defer log.Close()
	readyOut, readyIn, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	defer readyIn.Close()
	lifelineOut, lifelineIn, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	defer lifelineOut.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	cmd := exec.Command(self, "init", s.Dir)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{readyIn, lifelineOut}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if s.Rootless {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, nil, cannotIsolate(s.Rootless, err)
	}
	s.PID = cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the lab, or with this process
	return readyOut, lifelineIn, ended, s.save()
}

func cannotIsolate(rootless bool, err error) error {
	if rootless {
		return fmt.Errorf("a lab needs root, or a kernel that lets this user create namespaces (%w): see the sysctls "+
			"user.max_user_namespaces, kernel.unprivileged_userns_clone and "+
			"kernel.apparmor_restrict_unprivileged_userns", err)
	}
	return fmt.Errorf(
		"this root may not create namespaces (%w): in a container, it needs CAP_SYS_ADMIN and CAP_NET_ADMIN", err)
}

func (s *state) await(ctx context.Context, ready io.Reader) error {
	report := make(chan string, 1)
	go func() { // ends with the other side of the pipe
		line, _ := bufio.NewReader(ready).ReadString(0)
		report <- strings.TrimSpace(strings.TrimRight(line, "\x00"))
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case r := <-report:
		switch r {
		case "ready":
			return nil
		case "":
			return fmt.Errorf("the lab ended before it was ready; see %s", s.log())
		}
		return errors.New(r)
	}
}

func (s *state) end() error {
	if !s.alive() { // another lab may now use the names of this lab's interfaces
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var denied error
	err := retry.Until(ctx, 20*time.Millisecond, func(context.Context) error {
		if !s.alive() {
			return nil
		}
		denied = syscall.Kill(s.PID, syscall.SIGKILL)
		if denied != nil && !errors.Is(denied, syscall.ESRCH) {
			return nil
		}
		denied = nil
		return errors.New("it does not end")
	})
	if err := errors.Join(denied, err); err != nil {
		return fmt.Errorf("end the lab in %s (process %d): %w", s.Dir, s.PID, err)
	}
	return s.unlink()
}
