package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/set"
	"github.com/penstock-project/penstock/xds/authority"
)

const shortestOverlap = time.Minute

func newCredentialsRotate() *cobra.Command {
	var (
		at                    files
		kubeconfig, namespace string
		overlap               time.Duration
	)
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Replace the certificate authorities that penstock made, such as after a key has leaked",
		Long: `Replace the certificate authorities that penstock made: the ClusterSet's in the state folder of -f or,
with --kubeconfig, the authorities in the Secrets penstock-ca and penstock-members-ca. The running processes publish
the new authority at once. After the overlap it signs all certificates; after another overlap the old authority is no
longer trusted. No connection is lost, except of a proxy or member that is away for longer than the overlap.

The files of penstock credentials stay as they are: make a new folder to replace their CA.`,
		Example: `  penstock credentials rotate -f ./config
  penstock credentials rotate --kubeconfig ~/.kube/config --namespace penstock-system --overlap 10m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if overlap < shortestOverlap {
				return fmt.Errorf("--overlap %s: write %s or more: processes and proxies receive the new authority "+
					"meanwhile", overlap, shortestOverlap)
			}
			if kubeconfig != "" {
				return rotateSecrets(cmd, kubeconfig, namespace, overlap)
			}
			return rotateState(cmd, &at, overlap)
		},
	}
	at.flags(cmd, "required without --kubeconfig and --state")
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster whose Secrets are replaced, of a user "+
		"who may get and update them (default: none)")
	f.StringVar(&namespace, "namespace", "", "namespace of penstock, with --kubeconfig (default: the kubeconfig's)")
	f.DurationVar(&overlap, "overlap", time.Hour,
		"how long the new authority is published before it signs, and how long the old one is trusted afterwards")
	exclusive(cmd, "file", "kubeconfig")
	exclusive(cmd, "state", "kubeconfig")
	return cmd
}

func rotateState(cmd *cobra.Command, at *files, overlap time.Duration) error {
	if err := at.exist(); err != nil {
		return err
	}
	dir, err := at.stateDir()
	if err != nil {
		return err
	}
	path := set.AuthorityFile(dir)
	if err := rotate(cmd.Context(), cmd.OutOrStdout(), path, set.OnDisk(dir).Authority(), overlap); err != nil {
		if authority.ErrNone(err) {
			return fmt.Errorf("%s: %w, with a ClusterSet", path, err)
		}
		return err
	}
	if app.Unserved(dir) == nil {
		fmt.Fprintln(cmd.OutOrStdout(), "No penstock runs with this state folder: the overlap begins when one starts.")
	}
	fmt.Fprintln(cmd.OutOrStdout(), afterwards)
	return nil
}

func rotateSecrets(cmd *cobra.Command, kubeconfig, namespace string, overlap time.Duration) error {
	config, own, err := clusterAt(nil, kubeconfig)
	if err != nil {
		return err
	}
	if namespace == "" {
		namespace = own
	}
	all, err := app.Authorities(config, namespace)
	if err != nil {
		return err
	}
	found := 0
	for _, name := range app.AuthoritySecrets {
		switch err := rotate(cmd.Context(), cmd.OutOrStdout(), "Secret "+objectid.Join(namespace, name), all[name],
			overlap); {
		case err == nil:
			found++
		case !authority.ErrNone(err):
			return err
		}
	}
	if found == 0 {
		return fmt.Errorf("namespace %s has none of the Secrets %q: name penstock's in --namespace", namespace,
			app.AuthoritySecrets)
	}
	fmt.Fprintln(cmd.OutOrStdout(), afterwards)
	return nil
}

const afterwards = `Keep penstock running until then. Afterwards write what penstock clusters show prints into the
ClusterSets of the other clusters: each trusts the old authority as long as its ClusterSet has it.`

func rotate(ctx context.Context, out io.Writer, name string, secrets authority.Secrets, overlap time.Duration) error {
	rotation, err := authority.Rotate(ctx, secrets, time.Now(), overlap)
	if errors.Is(err, authority.ErrChanged) {
		return fmt.Errorf("%s: other processes replace it all the time; run this again", name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	const text = "%s: a new authority is published now, and signs from %s; the old one is trusted until %s.\n"
	_, err = fmt.Fprintf(out, text, name, rotation.Signs.UTC().Format(time.RFC3339),
		rotation.Ends.UTC().Format(time.RFC3339))
	return err
}
