package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/multicluster/set"
)

func newClusters() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "clusters",
		Short: "Show and change this cluster's part in its cluster set",
		Long: `Show and change this cluster's part in its cluster set. To make two clusters members of each other,
give each a ClusterSet and a penstock up or serve with --members-listen. Pass the output of "show" here to "join"
there, and the output of that "join" to "join" here.`,
	}
	cmd.AddCommand(newClustersList(), newClustersShow(), newClustersJoin(), newClustersDrain(), newClustersLeave())
	return cmd
}

var errNoSet = errors.New("this cluster takes part in no cluster set, or its penstock has another --state: give the " +
	"same -f and --state; or write a ClusterSet, and start penstock up or serve with --members-listen")

func newClustersShow() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print this cluster's entry for the ClusterSets of other clusters",
		Long: `Print this cluster's entry for spec.members of other clusters' ClusterSets: its name, its address, its
CA certificates, and the namespaces of the pools that it exports now. Nothing in it is secret. The entry exists once
penstock up or serve has run for a folder with a ClusterSet.`,
		Example: `  penstock clusters show -f ./config > east.yaml
  penstock clusters show --http 127.0.0.1:9091   # of a process on Kubernetes, by kubectl port-forward`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := t.running(cmd.Context())
			if err != nil {
				return err
			}
			if manager := at.hub(cmd.Context()); manager != nil {
				return errors.New(hubsFolder(manager))
			}
			var text string
			if t.http != "" || t.inCluster() {
				var status set.Status
				status, err = t.clusterStatus(cmd.Context())
				text = status.Member
			} else {
				text, err = t.ownMember()
			}
			if err == nil && text == "" {
				err = errNoSet
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
	t.flags(cmd)
	return cmd
}

func newClustersList() *cobra.Command {
	var t target
	var output string
	var watch bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Print the members of the cluster set, their exports and imports, and problems",
		Long: `Print the members of the cluster set: their state, whether they are connected, when the last update
arrived, and how many pools each imports from this cluster and exports to it. Then print the requests that this
process's Envoys have sent to each since its start (and to this cluster itself, if an import has it), and the pools
that are not imported, with the reason.

The state of a member is Ready, Draining (it takes no new requests), Stale (connected, but silent) or Unreachable. The
exports of Stale and Unreachable members stay: requests go on as long as their model servers answer.`,
		Example: `  penstock clusters list -f ./config
  penstock clusters list -f ./config --watch
  penstock clusters list -f ./config -o json | jq '.members[] | select(.connected | not) | .name'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch {
				return t.watchClusters(cmd, output)
			}
			all, err := t.replicas(cmd.Context())
			if err != nil {
				return err
			}
			statuses, _, err := fromSome[set.Status](cmd, all, "/clusters")
			if err != nil {
				return err
			}
			status := joinSets(statuses)
			if output == "json" {
				return printJSON(cmd.OutOrStdout(), status)
			}
			if status.Cluster == "" && !status.Hub {
				return errNoSet
			}
			return printClusters(cmd.OutOrStdout(), &status, time.Now())
		},
	}
	t.flags(cmd)
	outputFlag(cmd, &output, "text", "json")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false,
		"print the members again after each change; with -o json, one line each time")
	return cmd
}

func (t *target) watchClusters(cmd *cobra.Command, output string) error {
	all, err := t.replicas(cmd.Context())
	if err != nil {
		return err
	}
	if manager := all[0].hub(cmd.Context()); manager != nil {
		return errors.New(hubsFolder(manager))
	}
	return watchLines(cmd, all, "/clusters?watch", output, joinSets,
		func(s set.Status) error { return printClusters(cmd.OutOrStdout(), &s, time.Now()) })
}

func printClusters(out io.Writer, status *set.Status, now time.Time) error {
	if status.Hub {
		_, err := fmt.Fprintln(out, hubsFolder(status))
		return err
	}
	if status.Cluster == "" {
		_, err := fmt.Fprintln(out, "This cluster takes part in no cluster set.")
		return err
	}
	draining := ""
	if status.Draining {
		except := ""
		if away := awayFrom(status); away != nil {
			except = fmt.Sprintf(", except %s, which may not have received the drain",
				strings.Join(append(away.members, away.silent...), ", "))
		}
		draining = fmt.Sprintf(" is draining: members send it no new request%s; %d of theirs are in flight", except,
			status.InFlight)
	}
	fmt.Fprintf(out, "Cluster %s%s\n", status.Cluster, draining)
	if len(status.Members) == 0 {
		_, err := fmt.Fprintln(out, "The ClusterSet has no members: see penstock clusters join")
		return err
	}
	t := newTable(out, "MEMBER", "STATE", "CONNECTED", "UPDATED", "EXPORTED TO IT", "IMPORTED FROM IT")
	for _, m := range status.Members {
		connected, updated := "no", "never"
		if m.Connected {
			connected = "yes"
		}
		if !m.Updated.IsZero() {
			updated = max(now.Sub(m.Updated), 0).Round(time.Second).String() + " ago"
		}
		t.row(m.Name, m.State, connected, updated, imported(m.Exports), imported(m.Imports))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	printTraffic(out, status.Cluster+" itself", status.Traffic)
	for _, m := range status.Members {
		printTraffic(out, m.Name, m.Traffic)
		for _, f := range m.Findings {
			fmt.Fprintf(out, "member %s: %s\n", m.Name, f)
		}
		printPools(out, "to "+m.Name, m.Exports)
		printPools(out, "from "+m.Name, m.Imports)
	}
	return nil
}

func printTraffic(out io.Writer, to string, t *set.Traffic) {
	if t == nil {
		return
	}
	spilled := ""
	if t.Spilled > 0 {
		spilled = fmt.Sprintf(", %d of all spilled by pools here", t.Spilled)
	}
	fmt.Fprintf(out, "to %s: %d requests served, %d failed, %d declined there%s; %d bytes of responses, first byte "+
		"after %s on average\n", to, t.Served, t.Failed, t.Declined, spilled, t.Bytes,
		time.Duration(t.FirstByte).Round(time.Millisecond/10))
}

func imported(list []set.PoolStatus) string {
	n := 0
	for _, p := range list {
		if p.State == set.Imported {
			n++
		}
	}
	return fmt.Sprintf("%d of %d", n, len(list))
}

const listed = 20

func printPools(out io.Writer, what string, list []set.PoolStatus) {
	n := 0
	for _, p := range list {
		if p.State == set.Imported {
			continue
		}
		if n++; n > listed {
			continue
		}
		why := ""
		if p.Message != "" {
			why = ": " + p.Message
		}
		fmt.Fprintf(out, "%s: pool %s: %s%s\n", what, p.Pool, p.State, why)
	}
	if n > listed {
		fmt.Fprintf(out, "%s: %d more pools; -o json lists them\n", what, n-listed)
	}
}
