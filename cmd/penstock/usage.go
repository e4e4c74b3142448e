package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/picker/usage"
)

func newUsage() *cobra.Command {
	var s target
	var output string
	var by []string
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Print who used what: requests, tokens and GPU seconds of gated routes",
		Long: `Print requests, tokens and GPU seconds of routes that an AccessPolicy gates, by the owner of the API key,
the model and the pool. Rows are hourly: the first hour counts whole.

Tokens are as the servers report them. Those of a stream without a report are estimated from its bytes: the column
ESTIMATED counts such requests. GPU seconds are the time to read prompts that strategy load assumes.

A request counts when it has ended. The command waits for a second, so that it includes each request that ended before.

In Kubernetes the command adds up what the running pods hold, unless they write to a database (--usage-db of serve).
In a folder whose penstock has ended, it reads the state folder.`,
		Example: `  penstock usage -f ./config
  penstock usage -f ./config --by owner --since 720h
  penstock usage --by owner,hour -o json   # of the cluster that kubectl uses`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := usage.Query{By: by, Since: since}
			if err := q.Check(); err != nil {
				return fmt.Errorf("--by or --since: %w", err)
			}
			answer, err := s.usage(cmd, q)
			if err != nil {
				return err
			}
			if answer.Problem != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "usage waits for its database, the oldest for %s: %s\n",
					time.Duration(answer.Late)*time.Second, answer.Problem)
			}
			if output == "json" {
				return printJSON(cmd.OutOrStdout(), answer)
			}
			return printUsage(cmd.OutOrStdout(), answer, by)
		},
	}
	s.ranFlags(cmd)
	outputFlag(cmd, &output, "table", "json")
	f := cmd.Flags()
	f.StringSliceVar(&by, "by", []string{"owner", "model", "pool"}, "columns to add up by: owner, model, pool and hour")
	someOf(cmd, "by", "owner", "model", "pool", "hour")
	f.DurationVar(&since, "since", 24*time.Hour, "how far to look back, as a duration such as 720h")
	return cmd
}

func (a *target) usage(cmd *cobra.Command, q usage.Query) (answer usage.Answer, err error) {
	all, err := a.replicas(cmd.Context())
	if err != nil {
		return answer, err
	}
	page := "/usage?" + url.Values{"by": {strings.Join(q.By, ",")}, "since": {q.Since.String()}}.Encode()
	answers, by, err := fromSome[usage.Answer](cmd, all, page)
	switch {
	case err != nil && all[0].network == "unix":
		dir, dirErr := a.stateDir()
		if dirErr != nil {
			return answer, err
		}
		answer, readErr := usage.ReadFolder(cmd.Context(), usage.Folder(dir), q, time.Now)
		if errors.Is(readErr, fs.ErrNotExist) {
			return answer, err
		}
		return answer, readErr
	case err != nil:
		return answer, err
	case answers[0].Shared: // all processes share one database, and have written to it
		err := by[0].get(cmd.Context(), page+"&"+app.UsageNow+"=true", &answer)
		answer.Until = usage.Merge(answers).Until
		return answer, err
	}
	return usage.Merge(answers), nil
}

func printUsage(out io.Writer, answer usage.Answer, by []string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, column := range by {
		fmt.Fprint(w, strings.ToUpper(column), "\t")
	}
	fmt.Fprintln(w, "REQUESTS\tDENIED\tFAILED\tESTIMATED\tINPUT\tCACHED\tOUTPUT\tGPU-SECONDS")
	slices.SortStableFunc(answer.Rows, func(a, b usage.Row) int {
		return cmp.Or(cmp.Compare(b.Input+b.Output, a.Input+a.Output), cmp.Compare(b.Requests, a.Requests))
	})
	for _, r := range answer.Rows {
		for _, column := range by {
			fmt.Fprint(w, usageCell(r, column), "\t")
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\n", r.Requests, r.Denied, r.Failed, r.Estimated, r.Input,
			r.Cached, r.Output, r.GPUSeconds)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if answer.Since == 0 {
		_, err := fmt.Fprintln(out, "no request of a gated route is counted yet")
		return err
	}
	begin := time.Unix(max(answer.Since, answer.From), 0).UTC().Format(time.RFC3339)
	if answer.Until > 0 {
		begin += ", and complete until " + time.Unix(answer.Until, 0).UTC().Format(time.RFC3339) +
			": requests in flight count when they end"
	}
	_, err := fmt.Fprintln(out, "counted since", begin)
	return err
}

func usageCell(r usage.Row, column string) string {
	switch column {
	case "owner":
		return cmp.Or(r.Owner, "-")
	case "model":
		return cmp.Or(r.Model, "-")
	case "pool":
		return cmp.Or(r.Pool, "-")
	}
	return time.Unix(r.Hour, 0).UTC().Format("2006-01-02T15")
}
