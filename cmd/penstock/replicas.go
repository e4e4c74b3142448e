package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/set"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/xds/server"
)

func (a *target) inCluster() bool {
	return a.http == "" && len(a.paths) == 0 && a.state == "" && a.cluster.file() != ""
}

func (a *target) replicas(ctx context.Context) ([]running, error) {
	if a.inCluster() {
		return a.cluster.pods(ctx)
	}
	at, err := a.running(ctx)
	return []running{at}, err
}

// running returns any one replica, for pages that are equal in all replicas.
func (a *target) running(ctx context.Context) (running, error) {
	if a.http != "" {
		return runningAt(a.http), nil
	}
	if a.inCluster() {
		pods, err := a.cluster.pods(ctx)
		if err != nil {
			return running{}, err
		}
		return anyOf(pods), nil
	}
	if err := a.exist(); err != nil {
		return running{}, err
	}
	dir, err := a.stateDir()
	if errors.Is(err, errNoFiles) {
		err = fmt.Errorf("%w, or --kubeconfig FILE for the penstock of a cluster", err)
	}
	return runningFor(dir), err
}

func anyOf(pods []running) running {
	return running{address: pods[0].address, dial: func(ctx context.Context) (conn net.Conn, first error) {
		for _, pod := range pods {
			conn, err := pod.dial(ctx)
			if err == nil {
				return conn, nil
			}
			first = cmp.Or(first, err)
		}
		return nil, first
	}}
}

// fromAll requests a page from all replicas. missing has an error for each replica without an
// answer.
func fromAll[T any](ctx context.Context, replicas []running, page string) (got []T, by []running, missing []error) {
	answers, errs := make([]T, len(replicas)), make([]error, len(replicas))
	var queries sync.WaitGroup
	for i, at := range replicas {
		queries.Go(func() { errs[i] = at.get(ctx, page, &answers[i]) })
	}
	queries.Wait()
	for i, err := range errs {
		if err != nil {
			missing = append(missing, err)
			continue
		}
		got, by = append(got, answers[i]), append(by, replicas[i])
	}
	return got, by, missing
}

// fromSome is fromAll with warnings for missing replicas. It fails if no replica answers.
func fromSome[T any](cmd *cobra.Command, replicas []running, page string) (got []T, by []running, err error) {
	got, by, missing := fromAll[T](cmd.Context(), replicas, page)
	if len(got) == 0 {
		return nil, nil, missing[0]
	}
	for _, err := range missing {
		fmt.Fprintf(cmd.ErrOrStderr(), "what only this process has is missing: %v\n", err)
	}
	return got, by, nil
}

func joinProxies(all [][]server.ProxyStatus) []server.ProxyStatus {
	out := slices.Concat(all...)
	slices.SortStableFunc(out, func(a, b server.ProxyStatus) int {
		return cmp.Or(strings.Compare(a.Gateway, b.Gateway), strings.Compare(a.Node, b.Node))
	})
	return out
}

// joinServing keeps, for each pool, the replica that sees the fewest serving servers.
func joinServing(all [][]picker.Serving) []picker.Serving {
	out := slices.Concat(all...)
	slices.SortStableFunc(out, func(a, b picker.Serving) int {
		return cmp.Or(strings.Compare(a.Pool.String(), b.Pool.String()), cmp.Compare(a.Serving, b.Serving))
	})
	return slices.CompactFunc(out, func(a, b picker.Serving) bool { return a.Pool == b.Pool })
}

func joinServers[T any](all [][]T, of func(T) (objectid.Target, string)) []T {
	out := slices.Concat(all...)
	slices.SortStableFunc(out, func(a, b T) int {
		poolA, serverA := of(a)
		poolB, serverB := of(b)
		return cmp.Or(strings.Compare(poolA.String(), poolB.String()), strings.Compare(serverA, serverB))
	})
	return slices.CompactFunc(out, func(a, b T) bool {
		poolA, serverA := of(a)
		poolB, serverB := of(b)
		return poolA == poolB && serverA == serverB
	})
}

// joinSets adds up requests. A member is connected if one replica is connected to it.
func joinSets(all []set.Status) set.Status {
	out := all[0]
	out.Members = slices.Clone(out.Members)
	for _, one := range all[1:] {
		for i := range out.Members {
			to := &out.Members[i]
			at := slices.IndexFunc(one.Members, func(m set.MemberStatus) bool { return m.Name == to.Name })
			if at < 0 {
				continue
			}
			m := &one.Members[at]
			to.Connected, to.Unacknowledged = to.Connected || m.Connected, to.Unacknowledged || m.Unacknowledged
			to.Traffic = joinTraffic(to.Traffic, m.Traffic)
			if m.Updated.After(to.Updated) {
				to.Updated = m.Updated
			}
			for _, f := range m.Findings {
				if !slices.Contains(to.Findings, f) {
					to.Findings = append(slices.Clone(to.Findings), f)
				}
			}
		}
		out.InFlight += one.InFlight
		out.Uncounted = slices.Compact(slices.Sorted(slices.Values(slices.Concat(out.Uncounted, one.Uncounted))))
		out.DrainTime = max(out.DrainTime, one.DrainTime)
		out.Traffic = joinTraffic(out.Traffic, one.Traffic)
	}
	return out
}

func joinTraffic(a, b *set.Traffic) *set.Traffic {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	out := set.Traffic{Served: a.Served + b.Served, Failed: a.Failed + b.Failed, Declined: a.Declined + b.Declined,
		Spilled: a.Spilled + b.Spilled, Bytes: a.Bytes + b.Bytes}
	if out.Served > 0 {
		out.FirstByte = set.Duration((float64(a.FirstByte)*float64(a.Served) +
			float64(b.FirstByte)*float64(b.Served)) / float64(out.Served))
	}
	return &out
}

// joinPicks removes duplicate picks: each replica also returns its peers' picks.
func joinPicks(all []app.FoundPicks, last int) app.FoundPicks {
	type id struct{ time, request, pool, picker, endpoints, lease string }
	out, seen := all[0], map[id]bool{}
	out.Picks = nil
	for _, found := range all {
		for _, r := range found.Picks {
			key := id{r.Time.UTC().Format(time.RFC3339Nano), r.Request, r.Pool, r.Picker, r.Endpoints, r.Lease}
			if !seen[key] {
				seen[key] = true
				out.Picks = append(out.Picks, r)
			}
		}
		out.Silent = min(out.Silent, found.Silent)
		out.Unknown = out.Unknown && found.Unknown
	}
	slices.SortStableFunc(out.Picks, func(a, b *picker.Record) int { return b.Time.Compare(a.Time) })
	if last > 0 && len(out.Picks) > last {
		out.Picks = out.Picks[:last]
	}
	return out
}

func watchLines[T any](cmd *cobra.Command, replicas []running, page, output string, join func([]T) T,
	text func(T) error) error {
	type line struct {
		replica int
		content T
		err     error
	}
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	lines := make(chan line)
	for i, at := range replicas {
		go at.follow(ctx, page, func(decode func(any) error) bool {
			l := line{replica: i}
			l.err = decode(&l.content)
			select {
			case lines <- l:
				return l.err == nil
			case <-ctx.Done():
				return false
			}
		})
	}
	now, first := map[int]T{}, true
	for left := len(replicas); ; {
		var l line
		select {
		case <-ctx.Done():
			return nil
		case l = <-lines:
		}
		if l.err != nil {
			if left--; left == 0 || ctx.Err() != nil {
				return unlessDone(ctx, l.err)
			}
			fmt.Fprintln(cmd.ErrOrStderr(), l.err)
			delete(now, l.replica)
			continue
		}
		now[l.replica] = l.content
		if len(now) < left {
			continue
		}
		var all []T
		for i := range replicas {
			if content, ok := now[i]; ok {
				all = append(all, content)
			}
		}
		if err := printLine(cmd, join(all), output, first, text); err != nil {
			return err
		}
		first = false
	}
}

func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func printLine[T any](cmd *cobra.Command, content T, output string, first bool, text func(T) error) error {
	if output == "json" {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(content)
	}
	if !first {
		fmt.Fprintf(cmd.OutOrStdout(), "\n--- %s\n", time.Now().Format(time.TimeOnly))
	}
	return text(content)
}

// follow calls next for each line of a page until next returns false. decode returns the error that
// ended the page.
func (r running) follow(ctx context.Context, page string, next func(decode func(any) error) bool) {
	body, err := r.open(ctx, page)
	if err != nil {
		next(func(any) error { return err })
		return
	}
	defer func() { _ = body.Close() }()
	lines := json.NewDecoder(body)
	for next(func(into any) error {
		if err := lines.Decode(into); err != nil {
			return fmt.Errorf("the process at %s has ended: %w", r.address, err)
		}
		return nil
	}) {
	}
}
