package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/release"
)

const printedAtOnce = 100

func printFindings(ctx context.Context, board *status.Board, out io.Writer) error {
	printed := map[string]bool{}
	err := board.StreamFindings(ctx, func(all []report.Finding) error {
		now, added := map[string]bool{}, 0
		for _, f := range all {
			if f.Severity == report.Info {
				continue
			}
			text := fmt.Sprintf("%s: %s", f.Severity, f)
			if now[text] = true; printed[text] {
				continue
			}
			if added++; added <= printedAtOnce {
				fmt.Fprintln(out, text)
			}
		}
		if more := added - printedAtOnce; more > 0 {
			fmt.Fprintf(out, "and %d errors and warnings more: penstock status shows them\n", more)
		}
		if len(printed) > 0 && len(now) == 0 {
			fmt.Fprintln(out, "all errors and warnings are resolved")
		}
		printed = now
		return nil
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func reasonPage(reason string) string { return "docs/reference/findings.md#" + strings.ToLower(reason) }

var released = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// linked returns a documentation page's URL if this program is a release, which contains no
// documentation; otherwise the page's path.
func linked(page string) string {
	if v := release.Version(); released.MatchString(v) {
		return "https://github.com/penstock-project/penstock/blob/" + v + "/" + page
	}
	return page
}

// aboutFields maps a finding's kind and field prefix, without indexes, to a page. The first match
// counts.
var aboutFields = []struct{ kind, field, page string }{
	{"Gateway", "spec.listeners.tls", "docs/https.md"},
	{"Gateway", "spec.tls", "docs/https.md"},
	{"Gateway", "", "docs/reference/gateway.md"},
	{"ListenerSet", "spec.listeners.tls", "docs/https.md"},
	{"ListenerSet", "", "docs/reference/listenerset.md"},
	{"GatewayClass", "", "docs/reference/gatewayclass.md"},
	{"EnvoyFleet", "", "docs/reference/envoyfleet.md"},
	{"HTTPRoute", "", "docs/reference/routes.md"},
	{"GRPCRoute", "", "docs/reference/routes.md"},
	{"TLSRoute", "", "docs/reference/routes.md"},
	{"TCPRoute", "", "docs/reference/routes.md"},
	{"UDPRoute", "", "docs/reference/routes.md"},
	{"BackendTLSPolicy", "", "docs/reference/backendtlspolicy.md"},
	{"InferencePool", "spec.endpointPickerRef", "docs/external-pickers.md"},
	{"InferencePool", "metadata.annotations", "docs/clusters-first-import.md"},
	{"InferencePool", "", "docs/a-first-pool.md"},
	{"InferencePoolImport", "", "docs/clusters-modes.md"},
	{"InferenceModel", "", "docs/lora-and-model-names.md"},
	{"InferenceModelRewrite", "", "docs/lora-and-model-names.md"},
	{"InferenceObjective", "", "docs/flow-control.md"},
	{"ClusterSet", "spec.members.allow", "docs/restrict-exports.md"},
	{"ClusterSet", "", "docs/clusters-first-import.md"},
	{"ModelDeployment", "", "docs/engines.md"},
	{"Engine", "", "docs/engines-own.md"},
	{"ModelRegistry", "", "docs/engines.md"},
	{"ModelServers", "", "docs/reference/modelservers.md"},
	{"EndpointPickerConfig", "", "docs/reference/plugins.md"},
	{"AccessPolicy", "spec.jwt", "docs/jwt.md"},
	{"AccessPolicy", "", "docs/access.md"},
	{"APIKey", "", "docs/access.md"},
	{"PoolPolicy", "spec.externalPicker", "docs/external-pickers.md"},
	{"PoolPolicy", "spec.picker.configRef", "docs/pick-strategies.md"},
	{"PoolPolicy", "spec.picker.flowControl", "docs/flow-control.md"},
	{"PoolPolicy", "spec.picker.kvEvents", "docs/prefix-caching.md"},
	{"PoolPolicy", "spec.picker.metrics", "docs/model-servers.md"},
	{"PoolPolicy", "spec.picker.plugins", "docs/pick-strategies.md"},
	{"PoolPolicy", "spec.picker.prefix", "docs/prefix-caching.md"},
	{"PoolPolicy", "spec.picker.processor", "docs/processor.md"},
	{"PoolPolicy", "spec.picker.session", "docs/sessions.md"},
	{"PoolPolicy", "spec.picker.shadow", "docs/compare-strategies.md"},
	{"PoolPolicy", "spec.picker.shedAfter", "docs/flow-control.md"},
	{"PoolPolicy", "spec.picker.strategy", "docs/pick-strategies.md"},
	{"PoolPolicy", "spec.selection", "docs/clusters-choose-by-load.md"},
	{"PoolPolicy", "spec.spill", "docs/clusters-spill.md"},
	{"PoolPolicy", "", "docs/reference/poolpolicy.md"},
}

var index = regexp.MustCompile(`\[\d+\]`)

func findingPage(f *report.Finding) string {
	field := index.ReplaceAllString(f.Field, "")
	for _, row := range aboutFields {
		if row.kind == f.Owner.Kind && strings.HasPrefix(field, row.field) {
			return row.page
		}
	}
	return "docs/reference/findings.md#findings"
}

func printPages(out io.Writer, doc *status.Document) {
	reasons := status.Reasons(doc)
	var pages []string
	for i := range doc.Findings {
		page := linked(findingPage(&doc.Findings[i]))
		if doc.Findings[i].Severity != report.Info && !slices.Contains(pages, page) {
			pages = append(pages, page)
		}
	}
	if len(reasons)+len(pages) > 0 {
		fmt.Fprintln(out)
	}
	for _, reason := range reasons {
		fmt.Fprintf(out, "What to do about %s: %s\n", reason, linked(reasonPage(reason)))
	}
	if len(pages) > 0 {
		fmt.Fprintf(out, "Pages about these findings: %s\n", strings.Join(pages, ", "))
	}
}
