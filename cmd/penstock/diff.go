package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/xds/resource"
)

// Exit codes, as diff(1) has them.
const (
	exitDiffers exitCode = 1
	exitTrouble exitCode = 2
)

type diffOptions struct {
	gateway string
	output  string
	picker  string
	any     bool
}

func newDiff() *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Print how a change of files changes Envoy's configuration, without running anything",
		Long: `Print how Envoy's configuration changes when the folder (or file) OLD becomes NEW: a unified diff of
the YAML of each resource that is added, removed or changed. Private keys and credentials are omitted. A comment, or a
field that only the picker reads, makes no difference.

Findings of NEW that OLD does not have are printed first, on standard error. The exit status is that of diff(1): 0 if
Envoy's configuration does not change, 1 if it changes, 2 on failure, or if NEW has errors that OLD does not have.
With errors, something in NEW does not take effect; a running penstock keeps the last good version of an invalid
object.`,
		Example: `  # What does this branch change in Envoy's configuration?
  git worktree add ../main main && penstock diff ../main/config ./config

  # In CI: names only, or JSON with the resources before and after.
  penstock diff old new -o names
  penstock diff old new -o json | jq -r '.[] | select(.type == "listener") | .name'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return trouble(cmd, errors.New("two folders or files are required: penstock diff OLD NEW"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return trouble(cmd, o.run(cmd, args[0], args[1])) },
	}
	f := cmd.Flags()
	f.StringVar(&o.gateway, "gateway", "", "only this Gateway, as NAMESPACE/NAME (default: all)")
	f.StringVarP(&o.output, "output", "o", "diff", "output format: diff, names or json")
	oneOf(cmd, "output", "diff", "names", "json")
	addOffline(f, &o.picker, &o.any)
	return cmd
}

// trouble prints an error and returns exitTrouble. It returns nil and exitDiffers unchanged.
func trouble(cmd *cobra.Command, err error) error {
	if err == nil || errors.Is(err, exitDiffers) {
		return err
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "penstock:", err)
	return exitTrouble
}

func (o *diffOptions) run(cmd *cobra.Command, before, after string) error {
	printers := map[string]func(io.Writer, []difference) error{
		"diff": printDiff, "names": printNames, "json": printDifferences,
	}
	show := printers[o.output]
	if show == nil {
		return fmt.Errorf("--output %q is unknown: write diff, names or json", o.output)
	}
	older, old, err := o.side(cmd, before)
	if err != nil {
		return err
	}
	newer, found, err := o.side(cmd, after)
	if err != nil {
		return err
	}
	worse := 0
	for _, f := range found {
		known := func(c report.Finding) bool {
			return c.Owner == f.Owner && c.Field == f.Field && c.Problem == f.Problem
		}
		if !slices.ContainsFunc(old, known) {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", f.Severity, f)
			if f.Severity == report.Error {
				worse++
			}
		}
	}
	differences, err := compare(older, newer)
	if err != nil {
		return err
	}
	if err := show(cmd.OutOrStdout(), differences); err != nil {
		return err
	}
	if worse > 0 {
		return fmt.Errorf("%s has errors that %s does not have (%d): the difference is printed as for a fresh start; "+
			"a running penstock keeps the last good version of invalid objects", after, before, worse)
	}
	if len(differences) > 0 {
		return exitDiffers
	}
	return nil
}

type place struct {
	gateway string
	ref     resource.Ref
}

func (o *diffOptions) side(cmd *cobra.Command, path string) (map[place]*resource.Resource, []report.Finding, error) {
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	p, t, err := offline(cmd.Context(), []string{path}, o.picker, o.any, log)
	if err != nil {
		return nil, nil, err
	}
	all := map[place]*resource.Resource{}
	for _, gw := range t.Gateways() {
		if o.gateway == "" || o.gateway == gw {
			for _, r := range t.Resources(gw) {
				all[place{gw, r.Ref}] = r
			}
		}
	}
	return all, status.NewDocument(p.Board().List(nil), app.Controller, nil, time.Time{}).Findings, nil
}

type difference struct {
	Gateway string          `json:"gateway"`
	Type    string          `json:"type"` // listener, route, cluster, endpoints or secret
	Name    string          `json:"name"`
	Change  string          `json:"change"` // added, removed or changed
	Old     json.RawMessage `json:"old,omitempty"`
	New     json.RawMessage `json:"new,omitempty"`
}

func compare(older, newer map[place]*resource.Resource) ([]difference, error) {
	var places []place
	for p, r := range older {
		if now := newer[p]; now == nil || now.Version != r.Version {
			places = append(places, p)
		}
	}
	for p := range newer {
		if older[p] == nil {
			places = append(places, p)
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.gateway, b.gateway), a.ref.Compare(b.ref))
	})
	out := []difference{}
	for _, p := range places {
		d := difference{Gateway: p.gateway, Type: p.ref.Type.String(), Name: p.ref.Name, Change: "changed"}
		var err error
		if r := older[p]; r == nil {
			d.Change = "added"
		} else if d.Old, err = toJSON(r); err != nil {
			return nil, err
		}
		if r := newer[p]; r == nil {
			d.Change = "removed"
		} else if d.New, err = toJSON(r); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

func (d difference) String() string { return d.Gateway + " " + d.Type + " " + d.Name }

func printDifferences(w io.Writer, list []difference) error { return printJSON(w, list) }

func printNames(w io.Writer, list []difference) error {
	for _, d := range list {
		if _, err := fmt.Fprintln(w, d.Change, d); err != nil {
			return err
		}
	}
	return nil
}

func printDiff(w io.Writer, list []difference) error {
	for _, d := range list {
		before, err := text(d.Old)
		if err != nil {
			return err
		}
		after, err := text(d.New)
		if err != nil {
			return err
		}
		shown := udiff.Unified("old "+d.String(), "new "+d.String(), before, after)
		if shown == "" {
			shown = fmt.Sprintf("--- old %s\n+++ new %s\nA private key or another credential differs.\n", d, d)
		}
		if _, err := io.WriteString(w, shown); err != nil {
			return err
		}
	}
	return nil
}

func text(raw json.RawMessage) (string, error) {
	if raw == nil {
		return "", nil
	}
	out, err := yaml.JSONToYAML(raw)
	return string(out), err
}
