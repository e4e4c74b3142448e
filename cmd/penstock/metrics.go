package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/manifests/monitoring"
)

func newMetrics() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Print alert rules for Prometheus and dashboards for Grafana",
		Long: "Print alert rules for Prometheus and dashboards for Grafana. On Kubernetes the chart's values\n" +
			"monitoring.rules and monitoring.dashboards install the same.",
	}
	cmd.AddCommand(&cobra.Command{
		Use:     "alerts",
		Short:   "Print the alert rules, a file for Prometheus' rule_files",
		Example: "  penstock metrics alerts > /etc/prometheus/penstock.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(monitoring.Rules())
			return err
		},
	}, &cobra.Command{
		Use:     "dashboards FOLDER",
		Short:   "Write the dashboards into a folder, one JSON file each",
		Example: "  penstock metrics dashboards /var/lib/grafana/dashboards",
		Args:    takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			for _, d := range monitoring.Dashboards() {
				path := filepath.Join(args[0], d.Name+".json")
				if err := os.WriteFile(path, d.JSON(), 0o644); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), path)
			}
			return nil
		},
	})
	return cmd
}
