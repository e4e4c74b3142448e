// Certificates of users may have negative serial numbers, which Envoy also accepts (istio#56815).
//go:debug x509negativeserial=1

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/manifests/release"
)

func main() {
	runtime.LockOSThread() // the kernel kills children when their thread ends; the first one survives exec
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores SIGHUP
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	root := newRoot()
	asPlugin(root, os.Args[0])
	root.SetArgs(withCommand(root, os.Args[1:]))
	if err := root.ExecuteContext(ctx); err != nil {
		var code exitCode
		if errors.As(err, &code) {
			os.Exit(int(code))
		}
		fmt.Fprintln(os.Stderr, root.DisplayName()+":", err)
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "penstock",
		Short: "An xDS control plane for Envoy that routes inference requests, with the endpoint picker inside",
		Long: `Penstock turns Gateway API routes to InferencePools into the configuration of running Envoys, and picks
the model server for every request.`,
		Version:       release.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newDemo(),
		newUp(),
		newRun(),
		newLogs(),
		newDown(),
		newPull(),
		newModels(),
		newRm(),
		newEngines(),
		newServe(),
		newPicker(),
		newBootstrap(),
		newCredentials(),
		newTranslate(),
		newDiff(),
		newStatus(),
		newExplain(),
		newKeys(),
		newUsage(),
		newClusters(),
		newHub(),
		newReplay(),
		newDebug(),
		newMetrics(),
		newSupport(),
		newSim(),
		newDrain(),
		newCopy(),
		newEnvoy(),
		newVersion(),
	)
	for _, cmd := range root.Commands() {
		rejectUnknown(cmd)
	}
	linkPages(root)
	root.SetFlagErrorFunc(misplaced)
	return root
}

// rejectUnknown makes an unknown subcommand of a group an error. Cobra would print the help and
// succeed.
func rejectUnknown(cmd *cobra.Command) {
	if !cmd.HasSubCommands() {
		return
	}
	cmd.DisableFlagsInUseLine = true
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var names []string
		for _, sub := range cmd.Commands() {
			names = append(names, sub.Name())
		}
		return fmt.Errorf("unknown command %q for %q: choose one of %s", args[0], cmd.CommandPath(),
			strings.Join(names, ", "))
	}
	if cmd.RunE == nil {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	for _, sub := range cmd.Commands() {
		rejectUnknown(sub)
	}
}

// misplaced adds a group's commands to an error about a flag that only they have.
func misplaced(cmd *cobra.Command, err error) error {
	if !cmd.HasSubCommands() {
		return err
	}
	return fmt.Errorf("%w: %s takes it only after a command: choose one of %s", err, cmd.CommandPath(),
		strings.Join(commandNames(cmd), ", "))
}

func commandNames(cmd *cobra.Command) (names []string) {
	for _, sub := range cmd.Commands() {
		if sub.HasSubCommands() {
			for _, verb := range commandNames(sub) {
				names = append(names, sub.Name()+" "+verb)
			}
			continue
		}
		names = append(names, sub.Name())
	}
	return names
}

func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if n := len(args); n < least || n > most {
			return fmt.Errorf("%d arguments are given: write %s", n, cmd.UseLine())
		}
		return nil
	}
}

// exclusive makes it an error to give both flags. Cobra's own error lacks their dashes.
func exclusive(cmd *cobra.Command, a, b string) {
	beforeRun(cmd, func() error {
		if cmd.Flags().Changed(a) && cmd.Flags().Changed(b) {
			return fmt.Errorf("--%s and --%s are both given: write one of them", a, b)
		}
		return nil
	})
}

func outputFlag(cmd *cobra.Command, output *string, form, other string) {
	cmd.Flags().StringVarP(output, "output", "o", form, "output format: "+form+" or "+other)
	oneOf(cmd, "output", form, other)
	beforeRun(cmd, func() error {
		if *output != form && *output != other {
			return fmt.Errorf("--output %q is unknown: write %s or %s", *output, form, other)
		}
		return nil
	})
}

func beforeRun(cmd *cobra.Command, check func() error) {
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := check(); err != nil || before == nil {
			return err
		}
		return before(cmd, args)
	}
}
