package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/xds/bootstrap"
)

func newBootstrap() *cobra.Command {
	var cfg bootstrap.Config
	var tls bootstrap.TLS
	var source files
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Print the bootstrap that attaches your own Envoy to a Gateway",
		Long: `Print the bootstrap that attaches your own Envoy to a Gateway over ADS. Start Envoy with the arguments
in the first line of the output: the bootstrap has no fields for them.

A Gateway in Kubernetes accepts such proxies if its EnvoyFleet has mode: external and names them. They connect over
TLS and verify the control plane with the certificates in the Secret penstock-ca: tls.crt, and next.crt before it
takes over. The control plane's certificate is for penstock.penstock-system.svc: pass this name with --tls-server-name
if --xds is an IP address. Proxies authenticate with a token for the audience penstock.dev of a service account in
external.serviceAccounts, or with a certificate for one of external.subjects that --xds-client-ca (the chart's
clientCA) verifies.

The certificate authority changes once a year and tokens expire. With --secrets, Envoy follows files that are
replaced: write a new file beside the old one, and mv it there. Envoy does not notice writes into the old file.`,
		Example: `  penstock bootstrap --gateway default/gw -f ./config > envoy.yaml
  envoy -c envoy.yaml $(sed -n 's/^# envoy arguments: //p' envoy.yaml)

  # Two control planes on other machines: if one ends, Envoy uses the other. penstock credentials makes the files.
  penstock bootstrap --gateway default/gw --xds 10.0.0.1:18000 --xds 10.0.0.2:18000 --tls-server-name penstock \
      --tls-ca ca.crt --tls-cert envoy.crt --tls-key envoy.key --secrets ./secrets > envoy.yaml

  # A control plane in Kubernetes, at its Service's address.
  kubectl get secret -n penstock-system penstock-ca \
      -o go-template='{{index .data "tls.crt" | base64decode}}{{with index .data "next.crt"}}{{base64decode .}}{{end}}' > ca.crt
  kubectl create token -n default edge --audience penstock.dev > token
  penstock bootstrap --gateway default/gw --xds 10.96.0.10:18000 --tls-server-name penstock.penstock-system.svc \
      --tls-ca ca.crt --token token --secrets ./secrets > envoy.yaml
  kubectl create token -n default edge --audience penstock.dev > token.next && mv token.next token   # before it expires`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return source.bootstrap(cmd.OutOrStdout(), cfg, tls) },
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Gateway, "gateway", "", "Gateway, as NAMESPACE/NAME (required)")
	source.flags(cmd, "required without --xds and --state")
	f.StringSliceVar(&cfg.ADS, "xds", nil, "address of a control plane, as HOST:PORT or unix:PATH; may be repeated "+
		"(default: the socket in the state folder of -f or --state)")
	f.StringVar(&cfg.NodeID, "node", "", "node ID of this Envoy (default: the Gateway's name)")
	f.StringVar(&cfg.Zone, "zone", "", "zone of this Envoy, for locality-aware load balancing (default: none)")
	f.StringVar(&cfg.Admin, "admin", "",
		"address of Envoy's admin interface, as IP:PORT or unix:PATH; every client that reaches it can stop Envoy "+
			"(default: the socket NODE.admin.sock in Envoy's working directory, which only Envoy's user can open)")
	f.DurationVar(&cfg.DrainTime, "drain-time", bootstrap.DefaultDrainTime,
		"drain time: how long connections may continue after their listener is removed")
	f.IntVar(&cfg.Concurrency, "concurrency", 0, "number of worker threads (default: one per CPU)")
	f.StringVar(&tls.CA, "tls-ca", "",
		"file with the CA certificates that verify the control plane; required for HOST:PORT (default: none)")
	f.StringVar(&tls.Cert, "tls-cert", "", "file with this Envoy's client certificate (default: none)")
	f.StringVar(&tls.Key, "tls-key", "", "file with the private key of --tls-cert (default: none)")
	f.StringVar(&cfg.Token, "token", "",
		"file with the token that authenticates this Envoy to the control plane (default: none)")
	f.StringVar(&cfg.Secrets, "secrets", "", "folder for the files through which Envoy follows changes of CA, "+
		"certificate and token; keep it as long as Envoy runs (default: none)")
	f.StringVar(&cfg.Ready, "ready", "",
		"address, as IP:PORT, at which /ready answers 200 while this Envoy serves (default: none)")
	f.StringVar(&tls.ServerName, "tls-server-name", "",
		"name that the control plane's certificate must have (default: the host of --xds)")
	_ = cmd.MarkFlagRequired("gateway")
	return cmd
}

func (s *files) bootstrap(out io.Writer, cfg bootstrap.Config, tls bootstrap.TLS) error {
	if tls != (bootstrap.TLS{}) {
		cfg.TLS = &tls
	}
	if err := s.attach(&cfg); err != nil {
		return err
	}
	if err := presents(cfg, tls); err != nil {
		return err
	}
	if err := absolute(&cfg.Token, &cfg.Secrets, &tls.CA, &tls.Cert, &tls.Key); err != nil {
		return err
	}
	if err := writeSecrets(cfg); err != nil {
		return err
	}
	if cfg.Admin == "" {
		cfg.Admin = "unix:" + strings.ReplaceAll(cmp.Or(cfg.NodeID, cfg.Gateway), "/", "-") + ".admin.sock"
	}
	text, err := bootstrap.YAML(cfg)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "# envoy arguments: %s\n%s", strings.Join(cfg.Args(), " "), text)
	return err
}

func (s *files) attach(cfg *bootstrap.Config) error {
	if len(cfg.ADS) == 0 {
		dir, err := s.stateDir()
		if errors.Is(err, errNoFiles) {
			return errors.New("no control plane is named: add -f FOLDER, as of penstock serve, or --xds")
		}
		if err != nil {
			return err
		}
		cfg.ADS = []string{unixPrefix + filepath.Join(dir, socketOfADS)}
	}
	for i, a := range cfg.ADS {
		if path, ok := strings.CutPrefix(a, unixPrefix); ok {
			if err := absolute(&path); err != nil {
				return err
			}
			cfg.ADS[i] = unixPrefix + path
		}
	}
	return nil
}

func presents(c bootstrap.Config, tls bootstrap.TLS) error {
	switch {
	case (tls.Cert == "") != (tls.Key == ""):
		return errors.New("--tls-cert and --tls-key belong together: give both")
	case tls.CA == "" && tls.Cert != "":
		return errors.New("--tls-cert needs --tls-ca, which verifies the control plane")
	case c.Token != "" && (tls.CA == "" || c.Secrets == ""):
		return errors.New("--token needs --tls-ca, which verifies the control plane, and --secrets, a folder for the " +
			"files that Envoy follows")
	}
	for _, a := range c.ADS {
		switch socket := strings.HasPrefix(a, unixPrefix); {
		case !socket && tls.CA == "":
			return fmt.Errorf("--xds %s is no socket: add --tls-ca, and --tls-cert and --tls-key, or --token and "+
				"--secrets, to match the --xds-… flags of penstock serve", a)
		case !socket && tls.Cert == "" && c.Token == "":
			return fmt.Errorf("--xds %s is no socket, so its control plane requires a certificate or a token: add "+
				"--tls-cert and --tls-key, or --token and --secrets", a)
		}
	}
	return nil
}

// absolute makes paths absolute, because Envoy has another working directory or rejects relative
// paths.
func absolute(paths ...*string) (err error) {
	for _, p := range paths {
		if *p == "" {
			continue
		}
		if *p, err = filepath.Abs(*p); err != nil {
			return err
		}
	}
	return nil
}

func writeSecrets(cfg bootstrap.Config) error {
	files, err := bootstrap.SecretFiles(cfg)
	if err != nil {
		return err
	}
	if len(files) > 0 {
		if err := os.MkdirAll(cfg.Secrets, 0o755); err != nil {
			return fmt.Errorf("--secrets: %w", err)
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(cfg.Secrets, name), content, 0o644); err != nil {
			return fmt.Errorf("--secrets: %w", err)
		}
	}
	return nil
}
