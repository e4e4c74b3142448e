package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/xds/bootstrap"
)

func newBootstrap() *cobra.Command {
	var cfg bootstrap.Config
	var tls bootstrap.TLS
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Print the bootstrap with which an Envoy of yours attaches to a Gateway",
		Long: `Print the bootstrap with which an Envoy of yours attaches to a Gateway over ADS. Start it with the arguments that
stand in the first line of what is printed: some settings of Envoy have no field in the bootstrap.

A Gateway in Kubernetes takes such proxies if its EnvoyFleet says mode: external, and names them. They speak TLS, verify the
control plane by the certificates in the Secret penstock-ca (tls.crt, and next.crt before it takes over), and prove who they
are by a token for the audience penstock.dev of a service account in external.serviceAccounts, or by a certificate for one
of external.subjects that --xds-client-ca (the chart's clientCA) verifies. The control plane's own certificate is for
penstock.penstock-system.svc: whoever reaches it by an address says so with --tls-server-name. A new authority comes each
year, and tokens end: with --secrets Envoy reads the files again when they are replaced.`,
		Example: `  penstock bootstrap --gateway default/gw --xds 127.0.0.1:18000 > envoy.yaml
  envoy -c envoy.yaml $(sed -n 's/^# envoy arguments: //p' envoy.yaml)

  # Two control planes, so that losing one is not noticed.
  penstock bootstrap --gateway default/gw --xds 10.0.0.1:18000 --xds 10.0.0.2:18000

  # A control plane in Kubernetes, at its Service's address.
  kubectl get secret -n penstock-system penstock-ca \
      -o go-template='{{index .data "tls.crt" | base64decode}}{{with index .data "next.crt"}}{{base64decode .}}{{end}}' > ca.crt
  kubectl create token -n default edge --audience penstock.dev > token
  penstock bootstrap --gateway default/gw --xds 10.96.0.10:18000 --tls-server-name penstock.penstock-system.svc \
      --tls-ca ca.crt --token token --secrets ./secrets > envoy.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if tls != (bootstrap.TLS{}) {
				cfg.TLS = &tls
			}
			if err := absolute(&cfg.Token, &cfg.Secrets, &tls.CA, &tls.Cert, &tls.Key); err != nil {
				return err
			}
			if err := writeSecrets(cfg); err != nil {
				return err
			}
			text, err := bootstrap.YAML(cfg)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "# envoy arguments: %s\n%s", strings.Join(cfg.Args(), " "), text)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Gateway, "gateway", "", "NAMESPACE/NAME of the Gateway (required)")
	f.StringSliceVar(&cfg.ADS, "xds", []string{"127.0.0.1:18000"}, "address of a control plane; may be repeated")
	f.StringVar(&cfg.NodeID, "node", "", "name of this Envoy (default: the Gateway's)")
	f.StringVar(&cfg.Zone, "zone", "", "zone that this Envoy runs in")
	f.StringVar(&cfg.Admin, "admin", "127.0.0.1:19000", "address of Envoy's admin interface, IP:PORT or unix:PATH")
	f.DurationVar(&cfg.DrainTime, "drain-time", bootstrap.DefaultDrainTime, "how long streams may go on whose listener has gone")
	f.IntVar(&cfg.Concurrency, "concurrency", 0, "worker threads (default: one a CPU)")
	f.StringVar(&tls.CA, "tls-ca", "", "file with the CA that verifies the control plane; without it, cleartext")
	f.StringVar(&tls.Cert, "tls-cert", "", "file with this Envoy's certificate")
	f.StringVar(&tls.Key, "tls-key", "", "file with its key")
	f.StringVar(&cfg.Token, "token", "", "file with the token that proves to the control plane who this Envoy is")
	f.StringVar(&cfg.Secrets, "secrets", "", "folder, for good, where files are written that let Envoy follow changes of CA, certificate and token")
	f.StringVar(&cfg.Ready, "ready", "", "IP:PORT at which /ready answers 200 while this Envoy serves (default: none)")
	f.StringVar(&tls.ServerName, "tls-server-name", "", "name that the control plane's certificate must have")
	_ = cmd.MarkFlagRequired("gateway")
	return cmd
}

// absolute makes paths absolute, those that are given: Envoy takes relative ones for others than we do, or refuses them.
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

// writeSecrets writes the files by which Envoy follows its secrets.
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
