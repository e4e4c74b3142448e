//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
)

func newExec() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "exec -- COMMAND [ARGS]",
		Short: "run a command that can reach the lab, with KUBECONFIG set",
		Long: `Exec runs a command with KUBECONFIG set. A lab without root can be reached from its own namespaces
only; the command enters them (with the program nsenter).`,
		Example: `  lab exec -- kubectl get nodes`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := load(dir)
			if err != nil {
				return err
			}
			if !s.alive() {
				return fmt.Errorf("the lab in %s has ended; see %s", s.Dir, s.log())
			}
			if s.Rootless {
				args = append([]string{"nsenter", "--target", strconv.Itoa(s.PID), "--user", "--preserve-credentials",
					"--net", "--"}, args...)
			}
			path, err := exec.LookPath(args[0])
			if err != nil && !errors.Is(err, exec.ErrDot) {
				return err
			}
			return syscall.Exec(path, args, append(os.Environ(), "KUBECONFIG="+s.kubeconfig()))
		},
	}
	addDir(cmd, &dir)
	return cmd
}
