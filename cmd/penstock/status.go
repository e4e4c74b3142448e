package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/multicluster/set"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
)

func newStatus() *cobra.Command {
	var s target
	var output string
	var watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print for every object whether it takes effect, and what is wrong",
		Long: `Print for every object that penstock up or serve reads whether it takes effect, and what is wrong: the
conditions of Gateway API, findings with file and line, the connected Envoys with the resources that they reject, and
the members of the cluster set. If no penstock runs, the command prints the last status that was written.

In Kubernetes the conditions are in the objects' own status. Without -f, --state and --http the command finds
Penstock's pods by the kubeconfig and forwards to them; it then also prints findings without a condition, and the
Envoys of all pods.

The last lines name the pages of the documentation about these reasons and findings.

With --watch the command prints the status again after each change, until it is interrupted.

The exit status is 1 if there is a finding of severity error: something written does not take effect.`,
		Example: `  penstock status -f ./config
  penstock status                                  # of the cluster that kubectl uses
  penstock status -f ./config --watch
  penstock status -f ./config -o json | jq '.findings[] | select(.severity == "error")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := s.replicas(cmd.Context())
			if err != nil {
				return err
			}
			if watch {
				return watchStatus(cmd, at, output)
			}
			return printStatus(cmd, at, s.statusFile(), output)
		},
	}
	s.ranFlags(cmd)
	outputFlag(cmd, &output, "text", "json")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false,
		"print the status again after each change; with -o json, one line each time")
	return cmd
}

type statusJSON struct {
	*status.Document
	Proxies []server.ProxyStatus `json:"proxies,omitempty"`
	Rates   []picker.Rate        `json:"rates,omitempty"`
	Suspect []picker.Suspect     `json:"suspect,omitempty"`
	Serving []picker.Serving     `json:"serving,omitempty"`
	// ClusterSet is nil outside of a cluster set.
	ClusterSet *set.Status `json:"clusterSet,omitempty"`
}

func watchStatus(cmd *cobra.Command, all []running, output string) error {
	if manager := all[0].hub(cmd.Context()); manager != nil {
		return errors.New(hubsFolder(manager))
	}
	return watchLines(cmd, all, "/status?watch", output, status.Join, func(doc *status.Document) error {
		serving, _, _ := fromAll[[]picker.Serving](cmd.Context(), all, "/debug/serving")
		return status.Text(cmd.OutOrStdout(), doc, endpoints(joinServing(serving)))
	})
}

func (a *target) statusFile() string {
	if a.http != "" || a.inCluster() {
		return ""
	}
	dir, err := a.stateDir()
	if err != nil {
		return ""
	}
	return app.StatusFile(dir)
}

func (s *statusJSON) query(cmd *cobra.Command, all []running) error {
	docs, all, err := fromSome[*status.Document](cmd, all, "/status")
	if err != nil {
		return err
	}
	s.Document = status.Join(docs)
	proxies, _, err := fromSome[[]server.ProxyStatus](cmd, all, "/proxies")
	if err != nil {
		return err
	}
	s.Proxies = joinProxies(proxies)
	sets, _, err := fromSome[set.Status](cmd, all, "/clusters")
	if err != nil {
		return err
	}
	if clusterSet := joinSets(sets); clusterSet.Cluster != "" {
		s.ClusterSet = &clusterSet
	}
	// Errors are ignored, because earlier versions lack these pages.
	rates, _, _ := fromAll[[]picker.Rate](cmd.Context(), all, "/debug/rates")
	s.Rates = joinServers(rates, func(r picker.Rate) (objectid.Target, string) { return r.Pool, r.Server })
	suspect, _, _ := fromAll[[]picker.Suspect](cmd.Context(), all, "/debug/suspect")
	s.Suspect = joinServers(suspect, func(s picker.Suspect) (objectid.Target, string) { return s.Pool, s.Server })
	serving, _, _ := fromAll[[]picker.Serving](cmd.Context(), all, "/debug/serving")
	s.Serving = joinServing(serving)
	return nil
}

func printStatus(cmd *cobra.Command, all []running, file, output string) error {
	var out statusJSON
	if manager := all[0].hub(cmd.Context()); manager != nil {
		return errors.New(hubsFolder(manager))
	}
	err := out.query(cmd, all)
	runs := out.Document != nil
	// After an interrupt, the file is not read, because the process may run and the file be
	// outdated.
	if !runs && cmd.Context().Err() == nil && file != "" {
		out.Document, err = status.Read(file)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("these files have no status yet: run penstock up with the same -f (and --state) first, or " +
			"penstock translate --status")
	case err != nil:
		return err
	case output == "json":
		if err := printJSON(cmd.OutOrStdout(), out); err != nil {
			return err
		}
		return printAll(io.Discard, out.Findings)
	}
	if !runs {
		fmt.Fprintln(cmd.ErrOrStderr(),
			"penstock is not running, or its state folder has no socket: this is the last status that it wrote")
	}
	if err := status.Text(cmd.OutOrStdout(), out.Document, endpoints(out.Serving)); err != nil {
		return err
	}
	printPages(cmd.OutOrStdout(), out.Document)
	if err := printProxies(cmd.OutOrStdout(), out.Proxies); err != nil {
		return err
	}
	printRates(cmd.OutOrStdout(), out.Rates)
	printOut(cmd.OutOrStdout(), out.Serving)
	printSuspects(cmd.OutOrStdout(), out.Suspect, out.Serving)
	if out.ClusterSet != nil {
		fmt.Fprintln(cmd.OutOrStdout())
		if err := printClusters(cmd.OutOrStdout(), out.ClusterSet, time.Now()); err != nil {
			return err
		}
	}
	return printAll(io.Discard, out.Findings)
}

func syncState(p server.ProxyStatus) string {
	var parts []string
	behind := false
	for _, t := range p.Types {
		add := func(n int, what string) {
			if n > 0 {
				parts = append(parts, fmt.Sprintf("%d of type %s %s", n, t.Type, what))
			}
		}
		add(t.Pending-t.Leaving, "to add")
		add(t.Leaving, "to remove")
		add(t.Rejected, "rejected")
		serves := t.Type != resource.Cluster.String() && t.Type != resource.Endpoints.String()
		behind = behind || t.Pending > t.Leaving || t.Rejected > 0 || serves && t.Leaving > 0
	}
	text := strings.Join(parts, ", ")
	switch {
	case p.InSync:
		return "is in sync"
	case p.Waiting:
		return "waits for its Gateway, which does not exist here, or is not Penstock's: apply it, or name another " +
			"one in penstock bootstrap --gateway"
	case text == "":
		return "is behind: it connected just now"
	case behind:
		return "is behind: " + text
	}
	return "is in sync (" + text + ")"
}

const maxRates = 32

func printServers(w io.Writer, lines []string, more string) {
	for _, line := range lines[:min(len(lines), maxRates)] {
		fmt.Fprintln(w, "Server "+line)
	}
	if n := len(lines) - maxRates; n > 0 {
		fmt.Fprintf(w, "%d more servers %s: -o json shows them\n", n, more)
	}
}

func printRates(w io.Writer, rates []picker.Rate) {
	var lines []string
	for _, r := range rates {
		text := rateText(r.Rate, r.From)
		if r.Inferred > 0 {
			text += fmt.Sprintf(", by first tokens %.0f", r.Inferred)
		}
		lines = append(lines, fmt.Sprintf("%s of pool %s %s", r.Server, r.Pool, text))
	}
	printServers(w, lines, "have a rate")
}

func endpoints(serving []picker.Serving) func(report.Ref) string {
	counts := map[report.Ref][2]int{}
	for i := range serving {
		ref := app.OwnerOf(serving[i].Pool)
		n := counts[ref]
		counts[ref] = [2]int{n[0] + serving[i].Serving, n[1] + serving[i].Servers}
	}
	return func(ref report.Ref) string {
		n, ok := counts[ref]
		if !ok {
			return ""
		}
		return fmt.Sprintf("%d/%d", n[0], n[1])
	}
}

// printSuspects prints servers that get only trial requests. printOut prints those that do not
// serve, with the cause.
func printSuspects(w io.Writer, all []picker.Suspect, serving []picker.Serving) {
	type server struct {
		pool    objectid.Target
		address string
	}
	out := map[server]bool{}
	for i := range serving {
		for _, o := range serving[i].Out {
			out[server{serving[i].Pool, o.Server}] = true
		}
	}
	var lines []string
	for _, s := range all {
		if !out[server{s.Pool, s.Server}] {
			lines = append(lines, fmt.Sprintf("%s of pool %s is suspect: %s", s.Server, s.Pool, s.Why))
		}
	}
	printServers(w, lines, "are suspect")
}

func printOut(w io.Writer, serving []picker.Serving) {
	var lines []string
	for i := range serving {
		for _, o := range serving[i].Out {
			lines = append(lines,
				fmt.Sprintf("%s of pool %s does not serve: %s", o.Server, serving[i].Pool, o.Reason()))
		}
	}
	printServers(w, lines, "do not serve")
}

func printProxies(w io.Writer, proxies []server.ProxyStatus) error {
	for _, p := range proxies {
		if _, err := fmt.Fprintf(w, "Envoy %s of Gateway %s %s\n", p.Node, p.Gateway, syncState(p)); err != nil {
			return err
		}
	}
	return nil
}
