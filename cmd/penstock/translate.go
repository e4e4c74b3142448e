package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/cmd/penstock/internal/debug"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/supervisor"
)

// exitCode is a command's exit status. The error itself has been printed.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

type translateOptions struct {
	paths    []string
	gateway  string
	output   string
	picker   string
	validate bool
	any      bool
	status   bool
}

func newTranslate() *cobra.Command {
	var o translateOptions
	cmd := &cobra.Command{
		Use:   "translate",
		Short: "Print the Envoy configuration for a folder of YAML, without running anything",
		Long: `Print the Envoy configuration for a folder of YAML, without running anything: for each Gateway its
listeners, route configurations, clusters, endpoints and secrets. Private keys and credentials are omitted. Equal
input gives equal bytes, so that two outputs can be compared. Findings are printed on standard error; the exit status
is 1 if there is one of severity error: something in the folder does not take effect.`,
		Example: `  penstock translate -f ./config
  penstock translate -f ./config --gateway default/gw -o json | jq .clusters

  # Validate with the real Envoy, too: it runs for a moment, without opening a port.
  penstock translate -f ./config --validate >/dev/null && echo valid

  # Translate Gateways of another controller.
  penstock translate -f ./their-config --any-controller --validate

  # Print the status of the objects instead.
  penstock translate -f ./config --status`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.paths, "file", "f", nil,
		"folder (read recursively) or file with YAML or JSON; may be repeated (required)")
	f.StringVar(&o.gateway, "gateway", "", "only this Gateway, as NAMESPACE/NAME (default: all)")
	outputFlag(cmd, &o.output, "yaml", "json")
	addOffline(f, &o.picker, &o.any)
	f.BoolVar(&o.validate, "validate", false,
		"deliver each resource to the real Envoy, and report rejected ones (default false)")
	f.BoolVar(&o.status, "status", false, "print the objects' status instead of Envoy's configuration (default false)")
	return cmd
}

func addOffline(f *pflag.FlagSet, picker *string, anyController *bool) {
	f.StringVar(picker, "picker-address", "127.0.0.1:9002", "address of Penstock's picker in the output, as IP:PORT")
	f.BoolVar(anyController, "any-controller", false,
		"also translate Gateways whose class belongs to another controller (default false)")
}

func (o *translateOptions) run(cmd *cobra.Command) error {
	if len(o.paths) == 0 {
		return errNoFiles
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	p, t, err := offline(cmd.Context(), o.paths, o.picker, o.any, log)
	if err != nil {
		return err
	}
	var gateways []gatewayConfig
	for _, gw := range t.Gateways() {
		if o.gateway != "" && gw != o.gateway {
			continue
		}
		resources := t.Resources(gw)
		if o.validate {
			binary, err := supervisor.Find(cmd.Context())
			if err != nil {
				return err
			}
			rejected, err := validate(cmd.Context(), binary, gw, resources, log)
			if err != nil {
				return err
			}
			p.Board().Set(status.Envoy, rejected...)
			if len(rejected) == 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "Envoy %s accepts all %d resources of Gateway %s\n", binary.Version,
					len(resources), gw)
			}
		}
		g, err := newGatewayConfig(gw, resources)
		if err != nil {
			return err
		}
		gateways = append(gateways, g)
	}
	doc := status.NewDocument(p.Board().List(nil), app.Controller, nil, time.Time{})
	if err := o.print(cmd.OutOrStdout(), gateways, doc); err != nil {
		return err
	}
	findings := cmd.ErrOrStderr()
	if o.status {
		findings = io.Discard
	}
	return printAll(findings, doc.Findings)
}

func offline(ctx context.Context, paths []string, picker string, anyController bool, log *slog.Logger) (*app.Offline,
	*translator.Translator, error) {
	addr, err := netip.ParseAddrPort(picker)
	if err != nil {
		return nil, nil, fmt.Errorf("--picker-address %q: write IP:PORT", picker)
	}
	processor, err := defaultProcessor()
	if err != nil {
		return nil, nil, err
	}
	p, err := app.NewOffline(app.OfflineConfig{Paths: paths, PickerAddresses: []netip.AddrPort{addr},
		AnyController: anyController, Processor: processor, Log: log})
	if err != nil {
		return nil, nil, err
	}
	t, out, err := p.Translate(ctx)
	if err != nil {
		return nil, nil, err
	}
	if out.Err != nil {
		return nil, nil, fmt.Errorf("penstock has an internal error, your files may be valid: %w", out.Err)
	}
	return p, t, nil
}

func (o *translateOptions) print(w io.Writer, gateways []gatewayConfig, doc *status.Document) error {
	if o.status {
		if o.output == "json" {
			return printJSON(w, doc)
		}
		return status.Text(w, doc, nil)
	}
	for i, g := range gateways {
		raw, err := json.MarshalIndent(g, "", "  ")
		if err == nil && o.output == "yaml" {
			raw, err = yaml.JSONToYAML(raw)
			if i > 0 {
				fmt.Fprintln(w, "---")
			}
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w, string(raw)); err != nil {
			return err
		}
	}
	return nil
}

func printAll(w io.Writer, findings []report.Finding) error {
	errorsFound := 0
	for _, f := range findings {
		fmt.Fprintf(w, "%s: %s\n", f.Severity, f)
		if f.Severity == report.Error {
			errorsFound++
		}
	}
	if errorsFound > 0 {
		return exitCode(1)
	}
	return nil
}

type gatewayConfig struct {
	Gateway   string            `json:"gateway"`
	Listeners []json.RawMessage `json:"listeners"`
	Routes    []json.RawMessage `json:"routes"`
	Clusters  []json.RawMessage `json:"clusters"`
	Endpoints []json.RawMessage `json:"endpoints"`
	Secrets   []json.RawMessage `json:"secrets,omitempty"`
}

func newGatewayConfig(name string, resources []*resource.Resource) (gatewayConfig, error) {
	g := gatewayConfig{Gateway: name}
	into := map[resource.Type]*[]json.RawMessage{
		resource.Listener: &g.Listeners, resource.RouteConfiguration: &g.Routes, resource.Cluster: &g.Clusters,
		resource.Endpoints: &g.Endpoints, resource.Secret: &g.Secrets,
	}
	for _, r := range resources {
		raw, err := toJSON(r)
		if err != nil {
			return g, fmt.Errorf("print %s: %w", r.Ref, err)
		}
		*into[r.Type] = append(*into[r.Type], raw)
	}
	return g, nil
}

func toJSON(r *resource.Resource) (json.RawMessage, error) {
	msg, err := debug.Redacted(r)
	if err != nil {
		return nil, err
	}
	if m, ok := msg.(*routev3.RouteConfiguration); ok { // virtual hosts have no order for Envoy
		slices.SortFunc(m.VirtualHosts, func(a, b *routev3.VirtualHost) int {
			return strings.Compare(a.GetName(), b.GetName())
		})
	}
	return debug.JSON(msg)
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
