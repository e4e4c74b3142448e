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
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/cmd/penstock/internal/supervisor"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/xds/resource"
)

// exitCode is an error that has been told already; main exits with it.
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
		Short: "Print the Envoy configuration that a folder of YAML becomes, without running anything",
		Long: `Print the Envoy configuration that a folder of YAML becomes, without running anything: for each Gateway its listeners,
route configurations, clusters, endpoints and secrets (keys are left out). Equal input gives equal bytes, so that two
outputs can be compared. What is wrong in the folder is printed on standard error; the exit status is 1 if anything
that is written there does not take effect.`,
		Example: `  penstock translate -f ./config
  penstock translate -f ./config --gateway default/gw -o json | jq .clusters

  # Ask the real Envoy, too: it is started for a moment, without opening a port.
  penstock translate -f ./config --validate >/dev/null && echo good

  # What would become of somebody else's Gateways?
  penstock translate -f ./their-config --any-controller --validate

  # Only what is to be said about the objects.
  penstock translate -f ./config --status`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.paths, "file", "f", nil, "folder (read with all below it) or file with YAML or JSON; may be repeated (required)")
	f.StringVar(&o.gateway, "gateway", "", "only this Gateway, NAMESPACE/NAME")
	f.StringVarP(&o.output, "output", "o", "yaml", "yaml or json")
	addOffline(f, &o.picker, &o.any)
	f.BoolVar(&o.validate, "validate", false, "have the real Envoy accept or refuse each resource")
	f.BoolVar(&o.status, "status", false, "print the objects' status instead of Envoy's configuration")
	return cmd
}

// addOffline adds the flags of those commands that translate without running anything.
func addOffline(f *pflag.FlagSet, picker *string, anyController *bool) {
	f.StringVar(picker, "picker-address", "127.0.0.1:9002", "IP:PORT at which Envoys would reach Penstock's picker")
	f.BoolVar(anyController, "any-controller", false, "translate Gateways of other controllers' classes, too")
}

func (o *translateOptions) run(cmd *cobra.Command) error {
	if o.output != "yaml" && o.output != "json" {
		return fmt.Errorf("--output %q is not known: yaml or json", o.output)
	}
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
			refused, err := validate(cmd.Context(), binary, gw, resources, log)
			if err != nil {
				return err
			}
			p.Board().Set("envoy", refused...)
			if len(refused) == 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "Envoy %s accepts all %d resources of Gateway %s\n", binary.Version, len(resources), gw)
			}
		}
		g, err := newGatewayConfig(gw, resources)
		if err != nil {
			return err
		}
		gateways = append(gateways, g)
	}
	doc := status.NewDocument(p.Board().List(), app.Controller, nil, time.Time{})
	if err := o.print(cmd.OutOrStdout(), gateways, doc); err != nil {
		return err
	}
	complaints := cmd.ErrOrStderr()
	if o.status {
		complaints = io.Discard // the status has them
	}
	return told(complaints, doc.Findings)
}

// offline translates what stands in files, without running anything. The app holds the reports.
func offline(ctx context.Context, paths []string, picker string, anyController bool, log *slog.Logger) (*app.App, *translator.Translator, error) {
	addr, err := netip.ParseAddrPort(picker)
	if err != nil {
		return nil, nil, fmt.Errorf("--picker-address %q: write IP:PORT", picker)
	}
	p, err := app.New(app.Config{Paths: paths, PickerAddresses: []netip.AddrPort{addr}, AnyController: anyController, Tracer: noop.NewTracerProvider(), Log: log})
	if err != nil {
		return nil, nil, err
	}
	if err := p.Load(ctx); err != nil {
		return nil, nil, err
	}
	t, out := p.Translate()
	if out.Err != nil {
		return nil, nil, fmt.Errorf("this is a mistake in penstock, not in your files: %w", out.Err)
	}
	return p, t, nil
}

func (o *translateOptions) print(w io.Writer, gateways []gatewayConfig, doc *status.Document) error {
	if o.status {
		if o.output == "json" {
			return printJSON(w, doc)
		}
		return status.Text(w, doc)
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

// told prints findings and makes errors among them an exit status.
func told(w io.Writer, findings []report.Finding) error {
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

// gatewayConfig is one Gateway's configuration, to be printed.
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

// toJSON writes a resource as people read it in Envoy's documentation, hosts by name, without private keys.
func toJSON(r *resource.Resource) (json.RawMessage, error) {
	msg, err := decode(r)
	if err != nil {
		return nil, err
	}
	switch m := msg.(type) {
	case *tlsv3.Secret:
		if c := m.GetTlsCertificate(); c != nil {
			c.PrivateKey = nil
		}
	case *routev3.RouteConfiguration: // Envoy gets them in no order that means anything
		slices.SortFunc(m.VirtualHosts, func(a, b *routev3.VirtualHost) int { return strings.Compare(a.GetName(), b.GetName()) })
	}
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(msg)
	if err != nil {
		return nil, err
	}
	var tidy any // protojson varies its white space on purpose
	if err := json.Unmarshal(raw, &tidy); err != nil {
		return nil, err
	}
	return json.Marshal(tidy)
}

func decode(r *resource.Resource) (proto.Message, error) {
	t, err := protoregistry.GlobalTypes.FindMessageByURL(r.Type.URL())
	if err != nil {
		return nil, err
	}
	msg := t.New().Interface()
	return msg, proto.Unmarshal(r.Body(), msg)
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
