package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/manifests/release"
	"github.com/penstock-project/penstock/xds/supervisor"
	"github.com/penstock-project/penstock/xds/wheel"
)

type versions struct {
	Penstock string `json:"penstock"`         // a release, a pseudo-version, or "(devel)"
	Commit   string `json:"commit,omitempty"` // "+changed" follows if the source tree was not clean
	Go       string `json:"go"`
	Platform string `json:"platform"`        // GOOS/GOARCH
	Envoy    string `json:"envoy,omitempty"` // the version that penstock up starts
	Path     string `json:"envoyPath,omitempty"`
	NoEnvoy  string `json:"envoyProblem,omitempty"` // why Envoy was not found

	// The versions that this build is tested with.
	TestedEnvoy        string `json:"testedEnvoy"`
	GatewayAPI         string `json:"gatewayAPI"`
	InferenceExtension string `json:"inferenceExtension"`
}

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of penstock and of the Envoy it would start",
		Example: `  penstock version
  penstock version -o json | jq -r .envoyPath`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versions{
				Penstock: release.Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
				TestedEnvoy: wheel.Version,
				GatewayAPI:  release.Of(release.GatewayAPI), InferenceExtension: release.Of(release.InferenceExtension),
			}
			if info, ok := debug.ReadBuildInfo(); ok {
				v.Commit = commit(info)
			}
			if envoy, err := supervisor.Find(cmd.Context()); err != nil {
				v.NoEnvoy = err.Error()
			} else {
				v.Envoy, v.Path = envoy.Version, envoy.Path
			}
			return v.write(cmd.OutOrStdout(), output)
		},
	}
	outputFlag(cmd, &output, "text", "json")
	return cmd
}

func commit(info *debug.BuildInfo) string {
	var revision, changed string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changed"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + changed
}

func (v versions) write(w io.Writer, output string) error {
	if output == "json" {
		return printJSON(w, v)
	}
	line := "penstock " + v.Penstock
	if v.Commit != "" {
		line += " (" + v.Commit + ")"
	}
	envoy := v.NoEnvoy
	if v.Envoy != "" {
		envoy = v.Envoy + " (" + v.Path + ")"
	}
	_, err := fmt.Fprintf(w,
		"%s\ngo       %s %s\nenvoy    %s\ntested   Envoy %s, Gateway API %s, its inference extension %s\n",
		line, v.Go, v.Platform, envoy, v.TestedEnvoy, v.GatewayAPI, v.InferenceExtension)
	return err
}
