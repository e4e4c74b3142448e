package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/clusterset"
)

const (
	// adoptTimeout is how long a process takes to read a file that has changed, at most: it takes milliseconds.
	adoptTimeout = 15 * time.Second
	// drainQuiet is how long no request of other clusters is in flight before a drain is over: members need a moment to receive it, and so
	// do their Envoys.
	drainQuiet = 3 * time.Second
	drainPoll  = 100 * time.Millisecond
)

func newClustersDrain() *cobra.Command {
	var f files
	var undo bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Have members send this cluster no new request, and wait until theirs have ended",
		Long: `Have the members of the cluster set send this cluster no new request, and wait until their requests here have ended, or the drain time of
the running penstock (--drain-time) is over. The command sets spec.draining of the ClusterSet, so the drain lasts until it is undone, over
restarts too. Requests of this cluster's own clients are served as before.

If the command is interrupted, the cluster drains on.`,
		Example: `  penstock clusters drain -f ./config
  # maintenance
  penstock clusters drain -f ./config --undo`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := f.openClusterSet()
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			is, err := f.setDraining(cmd.Context(), d, !undo)
			switch {
			case errors.Is(err, errNotRunning):
				fmt.Fprintf(out, "%s is changed; no penstock runs for it now\n", d.Path)
				return nil
			case err != nil:
				return err
			case undo:
				fmt.Fprintf(out, "Cluster %s takes requests of its members again\n", is.Cluster)
				return nil
			}
			return f.waitDrained(cmd.Context(), out, timeout)
		},
	}
	f.flags(cmd, "required")
	cmd.Flags().BoolVar(&undo, "undo", false, "end the drain: members send requests again")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "longest time to wait for requests in flight (default: the running penstock's --drain-time)")
	return cmd
}

func newClustersLeave() *cobra.Command {
	var f files
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "leave",
		Short: "Drain this cluster, then remove all members from its ClusterSet",
		Long: `Leave the cluster set: drain this cluster as "penstock clusters drain" does, then remove all members from its ClusterSet. The other
clusters import nothing of it any more, and this cluster imports nothing of them; each of the others still lists this one until it is removed
from the ClusterSet there. "penstock clusters join" brings it back.`,
		Example: `  penstock clusters leave -f ./config`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, out := cmd.Context(), cmd.OutOrStdout()
			d, err := f.openClusterSet()
			if err != nil {
				return err
			}
			if len(d.set.Spec.Members) == 0 {
				return fmt.Errorf("%s:%d: ClusterSet %s: spec.members: it has none, so there is nothing to leave", d.Path, d.Line, d.Name)
			}
			is, err := f.setDraining(ctx, d, true)
			if errors.Is(err, errNotRunning) {
				return fmt.Errorf("%w, so requests of members do not end in an orderly way: start penstock, or remove spec.members from %s yourself", err, d.Path)
			}
			if err == nil {
				err = f.waitDrained(ctx, out, timeout)
			}
			if err != nil {
				return err
			}
			if d, err = f.openClusterSet(); err != nil { // as it is now
				return err
			}
			var names []string
			for _, m := range d.set.Spec.Members {
				names = append(names, m.Name)
			}
			d.set.Spec.Members = nil
			if err := errors.Join(d.setMembers(), d.setDraining(false)); err != nil {
				return err
			}
			if err := d.Save(); err != nil {
				return err
			}
			if _, err := f.adopted(ctx, func(is *clusterset.Status) bool { return len(is.Members) == 0 }); err != nil {
				return err
			}
			fmt.Fprintf(out, "Cluster %s has left. Remove the member %s from the ClusterSet of %s\n", is.Cluster, is.Cluster, strings.Join(names, ", "))
			return nil
		},
	}
	f.flags(cmd, "required")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "longest time to wait for requests in flight (default: the running penstock's --drain-time)")
	return cmd
}

// errNotRunning is the error of a folder for which no penstock runs.
var errNotRunning = errors.New("no penstock runs for these files")

// setDraining writes spec.draining, and waits until the running penstock has read it.
func (s *files) setDraining(ctx context.Context, d *document, draining bool) (is clusterset.Status, err error) {
	if d.set.Spec.Draining != draining {
		if err := d.setDraining(draining); err != nil {
			return is, err
		}
		if err := d.Save(); err != nil {
			return is, err
		}
	}
	return s.adopted(ctx, func(is *clusterset.Status) bool { return is.Cluster != "" && is.Draining == draining })
}

// adopted waits until the running penstock has a state.
func (s *files) adopted(ctx context.Context, has func(*clusterset.Status) bool) (is clusterset.Status, err error) {
	t := target{files: *s}
	if is, err = t.clusterStatus(ctx); err != nil {
		return is, fmt.Errorf("%w: %w", errNotRunning, err)
	}
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	for !has(&is) {
		select {
		case <-ctx.Done():
			return is, errors.New("the running penstock does not take the ClusterSet over: see penstock status")
		case <-time.After(drainPoll):
		}
		if is, err = t.clusterStatus(ctx); err != nil {
			return is, err
		}
	}
	return is, nil
}

// waitDrained waits until no request of other clusters is in flight, or the time is over.
func (s *files) waitDrained(ctx context.Context, out io.Writer, timeout time.Duration) error {
	t := target{files: *s}
	is, err := t.clusterStatus(ctx)
	if err != nil {
		return err
	}
	timeout = cmp.Or(timeout, time.Duration(is.DrainTime))
	fmt.Fprintf(out, "Cluster %s drains: %d requests of other clusters are in flight\n", is.Cluster, is.InFlight)
	for _, m := range is.Members {
		if !m.Connected {
			fmt.Fprintf(out, "Member %s is not connected: it sends requests until it receives that this cluster drains\n", m.Name)
		}
	}
	if len(is.Uncounted) > 0 {
		fmt.Fprintf(out, "Requests of other clusters for %s are not counted here, because they arrive at a Gateway or ask an external picker: the drain takes all of %s\n",
			strings.Join(is.Uncounted[:min(len(is.Uncounted), listed)], ", "), timeout)
	}
	until, quiet := time.Now().Add(timeout), time.Now()
	for {
		now := time.Now()
		if is.InFlight > 0 {
			quiet = now
		}
		switch {
		case len(is.Uncounted) == 0 && now.Sub(quiet) >= drainQuiet:
			fmt.Fprintf(out, "Cluster %s is drained\n", is.Cluster)
			return nil
		case !now.Before(until):
			fmt.Fprintf(out, "The drain time of %s is over; %d requests of other clusters are in flight\n", timeout, is.InFlight)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("interrupted; cluster %s drains on: penstock clusters drain --undo ends that", is.Cluster)
		case <-time.After(drainPoll):
		}
		if is, err = t.clusterStatus(ctx); err != nil {
			return err
		}
	}
}
