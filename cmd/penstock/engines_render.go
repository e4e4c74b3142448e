package main

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func newEnginesRender() *cobra.Command {
	var paths []string
	var accelerator string
	names := strings.Join(devices.AcceleratorNames(), ", ")
	cmd := &cobra.Command{
		Use:   "render NAME",
		Short: "Print the pod template of a ModelDeployment",
		Long: `Print the pods that a ModelDeployment would have on Kubernetes, from the files that have it, as a
PodTemplate. Penstock does not create these pods yet; no cluster is called. NAME may be NAMESPACE/NAME. Findings are
printed on standard error; the exit status is 1 if there is one of severity error.`,
		Example: `  penstock engines render qwen -f ./config
  penstock engines render qwen -f ./config --accelerator amd | kubectl apply --dry-run=server -f -`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(paths) == 0 {
				return errNoFiles
			}
			if accelerator != "" && !slices.Contains(devices.AcceleratorNames(), accelerator) {
				return fmt.Errorf("--accelerator %q: write one of %s", accelerator, names)
			}
			id := args[0]
			if !strings.Contains(id, "/") {
				id = objectid.Join(runNamespace, id)
			}
			return renderPod(cmd, paths, id, accelerator)
		},
	}
	cmd.Flags().StringArrayVarP(&paths, "file", "f", nil,
		"folder (read recursively) or file with YAML or JSON; may be repeated (required)")
	cmd.Flags().StringVar(&accelerator, "accelerator", "", "whose image and resource: "+names+
		" (default: by the devices of the Engine, or cpu without spec.resources.gpu)")
	return cmd
}

func renderPod(cmd *cobra.Command, paths []string, id, accelerator string) error {
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	o, err := app.NewOffline(app.OfflineConfig{Paths: paths, Log: log})
	if err != nil {
		return err
	}
	d, engines, err := o.Deployment(cmd.Context(), id)
	if err != nil {
		return err
	}
	owner := store.RefOf(store.ModelDeployments, id)
	engine := report.Ref{Group: v1alpha1.Group, Kind: store.Engines.Kind()}
	if d != nil {
		engine.Name = d.Spec.Engine.Name
		if plan, _ := deployment.New(d, engines); plan != nil { // o.Board() has New's findings already
			pod, found := plan.Pod(accelerator)
			for i := range found {
				found[i].Owner = owner
			}
			o.Board().Set(status.Translation, report.Report{Owner: owner, Findings: found})
			if err := printPod(cmd.OutOrStdout(), d, pod); err != nil {
				return err
			}
		}
	}
	var found []report.Finding
	for _, r := range o.Board().List(nil) {
		if r.Owner == (report.Ref{}) || r.Owner == engine || r.Owner == owner {
			found = append(found, r.Findings...)
		}
	}
	if err := printAll(cmd.ErrOrStderr(), found); err != nil || d != nil {
		return err
	}
	return fmt.Errorf("the files have no ModelDeployment %s", id)
}

func printPod(out io.Writer, d *v1alpha1.ModelDeployment, pod *corev1.PodTemplateSpec) error {
	if pod == nil {
		return nil
	}
	raw, err := yaml.Marshal(corev1.PodTemplate{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PodTemplate"},
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name}, Template: *pod})
	if err != nil {
		return err
	}
	_, err = out.Write(raw)
	return err
}
