package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/set"
)

const (
	adoptTimeout = 15 * time.Second
	// drainQuiet is how long the cluster must have no requests of members before the drain ends,
	// because members receive the drain with a delay.
	drainQuiet = 3 * time.Second
	drainPoll  = 100 * time.Millisecond
	// acknowledgeTimeout bounds the wait for members. A member with costly updates acknowledges up
	// to 5 s late.
	acknowledgeTimeout = 10 * time.Second
)

type setChange struct {
	files
	kubeconfig string
	http       []string
	timeout    time.Duration
	force      bool
}

func (d *setChange) flags(cmd *cobra.Command) {
	d.files.flags(cmd, "required without --kubeconfig")
	f := cmd.Flags()
	f.StringVar(&d.kubeconfig, "kubeconfig", "",
		"kubeconfig file of the cluster whose ClusterSet is changed, instead of the one in a folder (default: none)")
	f.StringSliceVar(&d.http, "http", nil, "with --kubeconfig: address of a penstock's --admin (or, on loopback, its "+
		"--http), which counts the requests in flight; repeat it for each process of the cluster (default: none)")
	f.DurationVar(&d.timeout, "timeout", 0,
		"longest time to wait for requests in flight (default: the running penstock's --drain-time)")
	exclusive(cmd, "file", "kubeconfig")
	exclusive(cmd, "file", "http")
	exclusive(cmd, "state", "http")
}

type changeable interface {
	now() *v1alpha1.ClusterSetSpec
	place() (object, written string)
	check(draining, leave bool) error
	change(ctx context.Context, draining, leave bool) error
}

func (d *setChange) open(ctx context.Context) (changeable, error) {
	switch {
	case d.kubeconfig != "":
		return openClusterObject(ctx, d.kubeconfig)
	case len(d.http) > 0:
		return nil, errors.New("--http needs --kubeconfig: the ClusterSet is written by the API server of the cluster")
	case len(d.paths) == 0:
		return nil, errors.New("no ClusterSet is named: add -f FOLDER, or --kubeconfig FILE of a cluster")
	}
	return d.openClusterSet()
}

func newClustersDrain() *cobra.Command {
	var d setChange
	var undo bool
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Drain this cluster: members send no new requests, and the command waits for theirs to end",
		Long: `Drain this cluster: its members send no new requests. The command waits until their requests in flight
have ended, or the drain time of the running penstock (--drain-time) is over. It sets spec.draining of the ClusterSet,
so the drain lasts until --undo, also over restarts. Requests of this cluster's own clients are served as before.

On success, each member has acknowledged the drain, and none of their requests was in flight for 3 s, or the drain
time is over. Requests for a pool that is exported in ParentMode, or has a picker of its own, are not counted here:
the drain then takes all of the drain time.

If the command is interrupted, the cluster keeps draining. A member that is not connected, or does not acknowledge the
drain within 10 s, sends requests until it receives the drain: the command ends with an error that names it, and the
cluster keeps draining.

On Kubernetes, the user of --kubeconfig must be allowed to list and patch ClusterSets. Each process of Penstock counts
the requests of its own picker: name all with --http, by a port-forward to each pod. Without --http the command does
not wait.`,
		Example: `  penstock clusters drain -f ./config
  # maintenance
  penstock clusters drain -f ./config --undo

  # On Kubernetes, with two processes
  kubectl port-forward -n penstock-system pod/penstock-1 9091:9091 &
  kubectl port-forward -n penstock-system pod/penstock-2 9092:9091 &
  penstock clusters drain --kubeconfig ~/.kube/config --http 127.0.0.1:9091,127.0.0.1:9092`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			clusterSet, err := d.open(cmd.Context())
			if err != nil {
				return err
			}
			_, changed := clusterSet.place()
			out := cmd.OutOrStdout()
			status, err := d.setDraining(cmd.Context(), clusterSet, !undo)
			switch {
			case errors.Is(err, errNotRunning):
				fmt.Fprintf(out, "%s is changed; no penstock runs for it now\n", changed)
				return nil
			case errors.Is(err, errNotNamed):
				fmt.Fprintf(out, "%s is changed; name each penstock with --http to wait until requests have ended\n",
					changed)
				return nil
			case err != nil:
				return err
			case undo:
				fmt.Fprintf(out, "Cluster %s takes requests of its members again\n", status.Cluster)
				return nil
			}
			return d.wait(cmd.Context(), out)
		},
	}
	d.flags(cmd)
	cmd.Flags().BoolVar(&undo, "undo", false, "end the drain: members send requests again")
	return cmd
}

func newClustersLeave() *cobra.Command {
	var d setChange
	cmd := &cobra.Command{
		Use:   "leave",
		Short: "Drain this cluster, then remove all members from its ClusterSet",
		Long: `Leave the cluster set: drain this cluster as "penstock clusters drain" does, then remove all members
from its ClusterSet. This cluster and the others then import nothing from each other. The others list this cluster
until it is removed from their ClusterSets. "penstock clusters join" brings it back.

If a member is not connected, or has not acknowledged the drain, it may go on sending requests, and no member is
removed. --force removes them nevertheless, such as after a member is gone for good.`,
		Example: `  penstock clusters leave -f ./config
  penstock clusters leave --kubeconfig ~/.kube/config --http 127.0.0.1:9091   # on Kubernetes, as drain`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.leave(cmd.Context(), cmd.OutOrStdout()) },
	}
	d.flags(cmd)
	cmd.Flags().BoolVar(&d.force, "force", false, "remove the members even if some have not received the drain; they "+
		"send requests to this cluster until it is removed there")
	return cmd
}

func (d *setChange) leave(ctx context.Context, out io.Writer) error {
	clusterSet, err := d.open(ctx)
	if err != nil {
		return err
	}
	object, changed := clusterSet.place()
	if len(clusterSet.now().Members) == 0 {
		return fmt.Errorf("%s: spec.members: it has none, so there is nothing to leave", object)
	}
	if err := clusterSet.check(false, true); err != nil {
		return err
	}
	if !d.counted() {
		return fmt.Errorf("%w: name each penstock of the cluster with --http, because members are removed once their "+
			"requests have ended", errNotNamed)
	}
	status, err := d.setDraining(ctx, clusterSet, true)
	if errors.Is(err, errNotRunning) {
		return fmt.Errorf("%w, so requests of members do not end in an orderly way: start penstock, or remove "+
			"spec.members from %s yourself", err, changed)
	}
	if err == nil {
		err = d.wait(ctx, out)
	}
	if away := (*unconnected)(nil); errors.As(err, &away) {
		if !d.force {
			return fmt.Errorf("%w; no member is removed: run the command again then, or with --force if they stay away",
				err)
		}
		err = nil
	}
	if err != nil {
		return err
	}
	if clusterSet, err = d.open(ctx); err != nil {
		return err
	}
	var names []string
	for _, m := range clusterSet.now().Members {
		names = append(names, m.Name)
	}
	if err := clusterSet.change(ctx, false, true); err != nil {
		return err
	}
	if _, err := d.adopted(ctx, func(status set.Status) bool { return len(status.Members) == 0 }); err != nil {
		return err
	}
	fmt.Fprintf(out, "Cluster %s has left. Remove the member %s from the ClusterSet of %s\n", status.Cluster,
		status.Cluster, strings.Join(names, ", "))
	return nil
}

var (
	errNotRunning = errors.New("no penstock runs for these files")
	errNotNamed   = errors.New("requests in flight are unknown")
)

func (d *setChange) counted() bool { return d.kubeconfig == "" || len(d.http) > 0 || d.state != "" }

func (d *setChange) statuses(ctx context.Context) (list []set.Status, err error) {
	if !d.counted() {
		return nil, errNotNamed
	}
	if len(d.http) == 0 {
		t := target{files: d.files}
		status, err := t.clusterStatus(ctx)
		return []set.Status{status}, err
	}
	for _, address := range d.http {
		t := target{http: address}
		status, err := t.clusterStatus(ctx)
		if err != nil {
			return nil, fmt.Errorf("--http: %w", err)
		}
		list = append(list, status)
	}
	return list, nil
}

func (d *setChange) status(ctx context.Context) (all set.Status, err error) {
	list, err := d.statuses(ctx)
	if err != nil {
		return all, err
	}
	return joinSets(list), nil
}

func (d *setChange) setDraining(ctx context.Context, clusterSet changeable, draining bool) (status set.Status,
	err error) {
	list, _ := d.statuses(ctx) // without an answer, adopted below returns the error
	if i := slices.IndexFunc(list, func(status set.Status) bool { return status.Hub }); i >= 0 {
		object, _ := clusterSet.place()
		return status, fmt.Errorf("%s: it is a hub's, which takes no requests: run the command for the cluster to "+
			"drain; %s", object, hubsFolder(&list[i]))
	}
	if d.kubeconfig != "" && d.counted() { // an unreachable process is an error before anything changes
		list, err := d.statuses(ctx)
		if err != nil {
			return status, err
		}
		for i := range list {
			if object, _ := clusterSet.place(); list[i].Cluster != "" && list[i].Cluster != clusterSet.now().Cluster {
				return status, fmt.Errorf("%s: spec.cluster is %s, and a penstock of --http or --state serves cluster "+
					"%s: name the processes of the cluster of --kubeconfig", object, clusterSet.now().Cluster,
					list[i].Cluster)
			}
		}
	}
	if clusterSet.now().Draining != draining {
		if err := clusterSet.change(ctx, draining, false); err != nil {
			return status, err
		}
	}
	return d.adopted(ctx, func(status set.Status) bool {
		return status.Cluster != "" && status.Draining == draining
	})
}

func (d *setChange) adopted(ctx context.Context, has func(set.Status) bool) (status set.Status, err error) {
	list, err := d.statuses(ctx)
	if err != nil {
		if d.kubeconfig == "" {
			err = fmt.Errorf("%w: %w", errNotRunning, err)
		}
		return status, err
	}
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	for slices.ContainsFunc(list, func(status set.Status) bool { return !has(status) }) {
		select {
		case <-ctx.Done():
			return status, errors.New("the running penstock has not applied the ClusterSet: see penstock status")
		case <-time.After(drainPoll):
		}
		if list, err = d.statuses(ctx); err != nil {
			return status, err
		}
	}
	return list[0], nil
}

type unconnected struct {
	cluster string
	members []string
	silent  []string // connected members that have not acknowledged the drain
}

func awayFrom(status *set.Status) *unconnected {
	u := &unconnected{cluster: status.Cluster}
	for _, m := range status.Members {
		switch {
		case !m.Connected:
			u.members = append(u.members, m.Name)
		case m.Unacknowledged:
			u.silent = append(u.silent, m.Name)
		}
	}
	if len(u.members)+len(u.silent) == 0 {
		return nil
	}
	return u
}

func (u *unconnected) waits() bool { return u != nil && len(u.silent) > 0 }

func (u *unconnected) Error() string {
	var parts []string
	part := func(names []string, one, many string) {
		switch len(names) {
		case 0:
		case 1:
			parts = append(parts, fmt.Sprintf(one, names[0], u.cluster))
		default:
			parts = append(parts, fmt.Sprintf(many, strings.Join(names, ", "), u.cluster))
		}
	}
	part(u.members,
		"member %s is not connected, and sends requests: the drain of cluster %s stays in force, and reaches it when "+
			"it connects",
		"members %s are not connected, and send requests: the drain of cluster %s stays in force, and reaches them "+
			"when they connect")
	part(u.silent,
		"member %s has not acknowledged the drain, and may send requests: the drain of cluster %s stays in force, "+
			"and takes effect there when it responds again",
		"members %s have not acknowledged the drain, and may send requests: the drain of cluster %s stays in force, "+
			"and takes effect there when they respond again")
	return strings.Join(parts, "; ")
}

func (u *unconnected) end(out io.Writer, line string) error {
	if u != nil {
		return u
	}
	_, err := fmt.Fprintln(out, line)
	return err
}

func (d *setChange) wait(ctx context.Context, out io.Writer) error {
	status, err := d.status(ctx)
	if err != nil {
		return err
	}
	timeout := cmp.Or(d.timeout, time.Duration(status.DrainTime))
	counted := ""
	if len(status.Uncounted) > 0 {
		counted = " at its own picker"
	}
	fmt.Fprintf(out, "Cluster %s drains: %d requests of other clusters are in flight%s\n", status.Cluster,
		status.InFlight, counted)
	away := awayFrom(&status)
	if away != nil {
		for _, name := range away.members {
			fmt.Fprintf(out, "Member %s is not connected: it sends requests until it receives the drain\n", name)
		}
	}
	if len(status.Uncounted) > 0 {
		fmt.Fprintf(out, "Requests of other clusters for %s are not counted here, because they arrive at a Gateway or "+
			"ask an external picker: the drain takes all of %s (--timeout)\n",
			strings.Join(status.Uncounted[:min(len(status.Uncounted), listed)], ", "), timeout)
	}
	began := time.Now()
	until, quiet := began.Add(timeout), began
	for {
		now := time.Now()
		// A member receives the drain when it connects, so the quiet time starts again.
		if list := awayFrom(&status); !reflect.DeepEqual(list, away) {
			away, quiet = list, now
		}
		if status.InFlight > 0 || away.waits() && now.Sub(began) < acknowledgeTimeout {
			quiet = now
		}
		switch {
		case len(status.Uncounted) == 0 && now.Sub(quiet) >= drainQuiet:
			return away.end(out, fmt.Sprintf("Cluster %s is drained", status.Cluster))
		case !now.Before(until):
			return away.end(out, fmt.Sprintf("The drain time of %s is over; %d requests of other clusters are in "+
				"flight", timeout, status.InFlight))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("interrupted; cluster %s is still draining: penstock clusters drain --undo ends that",
				status.Cluster)
		case <-time.After(drainPoll):
		}
		if status, err = d.status(ctx); err != nil {
			return err
		}
	}
}
