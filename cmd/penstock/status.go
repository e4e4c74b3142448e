package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/plane"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/xds/server"
)

func newStatus() *cobra.Command {
	var s files
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say of every object whether it takes effect, and what is wrong",
		Long: `Say of every object that penstock up or serve reads whether it takes effect, and what is wrong: conditions as the
Gateway API has them, findings with file and line, and the connected Envoys with what they refused. If nothing runs,
the last status that was written is shown.`,
		Example: `  penstock status -f ./config
  penstock status -f ./config -o json | jq '.findings[] | select(.severity == "error")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := s.stateDir()
			if err != nil {
				return err
			}
			return printStatus(cmd, dir, output)
		},
	}
	s.flags(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// statusJSON is what -o json prints.
type statusJSON struct {
	*status.Document
	Proxies []server.ProxyStatus `json:"proxies,omitempty"`
}

func printStatus(cmd *cobra.Command, dir, output string) error {
	var out statusJSON
	var err error
	running := ask(cmd.Context(), dir, "/status", &out.Document) == nil
	if running {
		err = ask(cmd.Context(), dir, "/proxies", &out.Proxies)
	} else {
		out.Document, err = status.Read(plane.StatusFile(dir))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("nothing is known of these files: run penstock up with the same -f (and --state) first, or penstock translate --status")
	case err != nil:
		return err
	case output == "json":
		return printJSON(cmd.OutOrStdout(), out)
	case output != "text":
		return fmt.Errorf("--output %q is not known: text or json", output)
	}
	if !running {
		fmt.Fprintln(cmd.ErrOrStderr(), "penstock is not running; this is the last status that it wrote")
	}
	if err := status.Text(cmd.OutOrStdout(), out.Document); err != nil {
		return err
	}
	return printProxies(cmd.OutOrStdout(), out.Proxies)
}

func printProxies(w io.Writer, proxies []server.ProxyStatus) error {
	for _, p := range proxies {
		state := "has everything"
		if !p.InSync {
			state = "is behind"
		}
		if _, err := fmt.Fprintf(w, "Envoy %s of Gateway %s %s\n", p.Node, p.Gateway, state); err != nil {
			return err
		}
	}
	return nil
}

// ask reads JSON from the penstock that serves a state folder.
func ask(ctx context.Context, dir, path string, into any) error {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", plane.Socket(dir))
	}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://penstock"+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("penstock answered %s: %s", resp.Status, text)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
