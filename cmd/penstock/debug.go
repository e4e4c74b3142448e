package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/xds/server"
)

func newDebug() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "debug",
		Short: "Inspect a running penstock: objects, translation, resources of proxies, pools",
		Long: `Inspect a running penstock: its objects, the inputs of a row of the translation, the resources that are
served to a Gateway's proxies, the resources that a proxy lacks, and the state of a pool's endpoints. Private keys,
tokens and other credentials are never printed: only fields that are known to hold none are.

The commands query the penstock that runs for the same files (-f), the one whose --admin address is given by
--http, or one of the cluster that the kubeconfig names.`,
	}
	group := func(name, short string, verbs ...*cobra.Command) {
		g := &cobra.Command{Use: name, Short: short}
		g.AddCommand(verbs...)
		cmd.AddCommand(g)
	}
	group("store", "The objects that penstock holds", newStoreShow(), newStoreWatch())
	group("graph", "The rows of the translation", newGraphWhy())
	group("xds", "What is served to proxies, and what they have accepted", newXDSStreams(), newXDSDump(), newXDSDiff())
	group("picker", "The pools of the endpoint picker", newPickerShow())
	return cmd
}

func debugCommand(use, short, example string, args cobra.PositionalArgs, run func(cmd *cobra.Command, at running,
	args []string) error, complete ...func(*target) cobra.CompletionFunc) *cobra.Command {
	return debugAll(use, short, example, args, func(cmd *cobra.Command, all []running, args []string) error {
		if len(all) > 1 {
			return run(cmd, anyOf(all), args)
		}
		return run(cmd, all[0], args)
	}, complete...)
}

// debugAll returns a command that requests a page from all processes, because each has a part of
// the data.
func debugAll(use, short, example string, args cobra.PositionalArgs, run func(cmd *cobra.Command, all []running,
	args []string) error, complete ...func(*target) cobra.CompletionFunc) *cobra.Command {
	var a target
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := a.replicas(cmd.Context())
			if err != nil {
				return err
			}
			return run(cmd, all, args)
		},
	}
	for _, c := range complete {
		cmd.ValidArgsFunction = c(&a)
	}
	a.flags(cmd)
	return cmd
}

func newStoreShow() *cobra.Command {
	var output string
	cmd := debugCommand("show KIND [NAMESPACE/NAME]", "Print the objects of a kind: a line each, or YAML",
		`  penstock debug store show HTTPRoute -f ./config
  penstock debug store show InferencePool default/chat -o yaml -f ./config`,
		takes(1, 2), func(cmd *cobra.Command, at running, args []string) error {
			query := url.Values{}
			if len(args) == 2 {
				query.Set("name", args[1])
			}
			var answer struct {
				Revision uint64            `json:"revision"`
				Objects  []json.RawMessage `json:"objects"`
			}
			if err := at.get(cmd.Context(), "/debug/store/"+url.PathEscape(args[0])+"?"+query.Encode(),
				&answer); err != nil {
				return err
			}
			if len(args) == 2 && len(answer.Objects) == 0 {
				return fmt.Errorf("this process has no %s %s: list its objects with penstock debug store show %[1]s",
					args[0], args[1])
			}
			switch output {
			case "yaml":
				return printYAML(cmd.OutOrStdout(), answer.Objects)
			case "name":
				return printObjectNames(cmd.OutOrStdout(), answer.Objects)
			}
			return fmt.Errorf("--output %q is unknown: write name or yaml", output)
		}, kindThenName)
	cmd.Flags().StringVarP(&output, "output", "o", "name", "name or yaml")
	oneOf(cmd, "output", "name", "yaml")
	return cmd
}

func printYAML(w io.Writer, objects []json.RawMessage) error {
	for _, raw := range objects {
		text, err := yaml.JSONToYAML(raw)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

func printObjectNames(w io.Writer, objects []json.RawMessage) error {
	for _, raw := range objects {
		var o struct {
			Metadata struct{ Namespace, Name string }
		}
		if err := json.Unmarshal(raw, &o); err != nil {
			return err
		}
		name := o.Metadata.Name
		if ns := o.Metadata.Namespace; ns != "" {
			name = objectid.Join(ns, name)
		}
		if _, err := fmt.Fprintln(w, name); err != nil {
			return err
		}
	}
	return nil
}

func newStoreWatch() *cobra.Command {
	return debugCommand("watch KIND",
		"Print a line for each object of a kind, and then for each change, until interrupted",
		`  penstock debug store watch EndpointSlice --http 127.0.0.1:9091`, takes(1, 1),
		func(cmd *cobra.Command, at running, args []string) error {
			err := at.stream(cmd.Context(), "/debug/store/"+url.PathEscape(args[0])+"?watch", func(line []byte) error {
				var e struct {
					Revision   uint64
					Type, Name string
				}
				if err := json.Unmarshal(line, &e); err != nil {
					return err
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%d\t%s\t%s\n", e.Revision, e.Type, e.Name)
				return err
			})
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}, kindOnly)
}

func (r running) stream(ctx context.Context, path string, line func([]byte) error) error {
	body, err := r.open(ctx, path)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		if err := line(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}

func newGraphWhy() *cobra.Command {
	return debugCommand("why KEY",
		"Print the inputs and readers of rows of the translation, and when and why each changed",
		`  penstock debug graph why pool/default/chat -f ./config
  penstock debug graph why default/chat -f ./config`,
		takes(1, 1), func(cmd *cobra.Command, at running, args []string) error {
			var rows []graph.Explanation
			if err := at.get(cmd.Context(), "/debug/graph?key="+url.QueryEscape(args[0]), &rows); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			for _, r := range rows {
				fmt.Fprintf(out, "%s: %s\n", r.Table, r.Key)
				if !r.Exists {
					fmt.Fprintln(out, "  has no value")
				}
				cause := "its key appeared"
				if r.Cause != "" {
					cause = "of " + r.Cause
				}
				fmt.Fprintf(out, "  recomputed at revision %d because %s; last changed at revision %d\n", r.Computed,
					cause, r.Changed)
				for _, read := range r.Reads {
					fmt.Fprintf(out, "  reads   %s\n", read)
				}
				for _, reader := range r.Readers {
					fmt.Fprintf(out, "  read by %s\n", reader)
				}
			}
			return nil
		})
}

func newXDSStreams() *cobra.Command {
	return debugAll("streams",
		"Print the connected proxies, and how many resources each holds, lacks and has rejected",
		`  penstock debug xds streams -f ./config`, cobra.NoArgs,
		func(cmd *cobra.Command, all []running, _ []string) error {
			answers, _, err := fromSome[[]server.ProxyStatus](cmd, all, "/proxies")
			if err != nil {
				return err
			}
			proxies := joinProxies(answers)
			t := newTable(cmd.OutOrStdout(), "NODE", "GATEWAY", "ENVOY", "CONNECTED", "HELD", "PENDING", "REJECTED",
				"IN SYNC")
			for _, p := range proxies {
				held, pending, rejected := 0, 0, 0
				for _, s := range p.Types {
					held, pending, rejected = held+s.Held, pending+s.Pending, rejected+s.Rejected
				}
				t.row(p.Node, p.Gateway, p.Version, p.Connected.UTC().Format(time.RFC3339), held, pending, rejected,
					p.InSync)
			}
			return t.Flush()
		})
}

func newXDSDump() *cobra.Command {
	return debugCommand("dump NAMESPACE/NAME",
		"Print what is served to a Gateway's proxies, in the form of Envoy's /config_dump",
		`  penstock debug xds dump default/gw -f ./config | jq '.configs[].dynamic_active_clusters[]?.cluster.name'`,
		takes(1, 1), func(cmd *cobra.Command, at running, args []string) error {
			var dump json.RawMessage
			if err := at.get(cmd.Context(), "/debug/xds/dump?gateway="+url.QueryEscape(args[0]), &dump); err != nil {
				return err
			}
			return printJSON(cmd.OutOrStdout(), dump)
		}, first(store.Gateways.Kind()))
}

func newXDSDiff() *cobra.Command {
	return debugAll("diff NODE",
		"Print the resources of which a proxy lacks the served version; nothing if it is in sync",
		`  penstock debug xds diff default/gw -f ./config`,
		takes(1, 1), func(cmd *cobra.Command, all []running, args []string) error {
			// a process without a connection of this node answers 404
			answers, _, missing := fromAll[[]server.ProxyDifferences](cmd.Context(), all,
				"/debug/xds/diff?node="+url.QueryEscape(args[0]))
			if len(answers) == 0 {
				return errors.Join(missing...)
			}
			proxies := slices.Concat(answers...)
			if !slices.ContainsFunc(proxies, func(p server.ProxyDifferences) bool { return len(p.Differences) > 0 }) {
				return nil
			}
			t := newTable(cmd.OutOrStdout(), "TYPE", "NAME", "SERVED", "ACCEPTED", "STATE", "DETAIL")
			for _, p := range proxies {
				for _, d := range p.Differences {
					t.row(d.Type, d.Name, orDash(d.Served), orDash(d.Accepted), d.State, strings.TrimSpace(d.Detail))
				}
			}
			return t.Flush()
		}, nodes)
}

func newPickerShow() *cobra.Command {
	return debugCommand("show NAMESPACE/NAME",
		"Print a pool's strategy and the state of each endpoint, with the reason if one is not fresh",
		`  penstock debug picker show default/chat -f ./config`,
		takes(1, 1), func(cmd *cobra.Command, at running, args []string) error {
			var e picker.Explanation
			if err := at.get(cmd.Context(), "/debug/pool?pool="+url.QueryEscape(args[0]), &e); err != nil {
				return err
			}
			if !e.Known {
				return fmt.Errorf("the picker of this process has no pool %s: penstock status lists its pools", args[0])
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "strategy %s\n", strategyText(e))
			if len(e.Relay) > 0 {
				fmt.Fprintf(out, "relayed to %s\n", strings.Join(e.Relay, ", "))
				return nil
			}
			t := newTable(out, "ENDPOINT", "POD", "FRESH", "QUEUE", "KV CACHE", "RUNNING", "IN FLIGHT", "FILTERED BY",
				"COST", "PROBLEM")
			for _, v := range e.Verdicts {
				s := v.State
				t.row(v.Address, orDash(v.Pod), s.Fresh, fmt.Sprintf("%g", s.Queue), fmt.Sprintf("%.0f%%", 100*s.KV),
					fmt.Sprintf("%g", s.Running), s.InFlight, orDash(v.Out), costCell(v), orDash(v.Problem))
			}
			return t.Flush()
		}, first(store.InferencePools.Kind(), store.InferencePoolImports.Kind()))
}

type columns struct{ *tabwriter.Writer }

func newTable(w io.Writer, header ...any) columns {
	t := columns{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row(header...)
	return t
}

func (t columns) row(cells ...any) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(t, "\t")
		}
		fmt.Fprint(t, c)
	}
	fmt.Fprintln(t)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
