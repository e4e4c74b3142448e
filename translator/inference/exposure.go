package inference

import (
	"fmt"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/model"
)

// Exposed returns the findings about requests that leave this cluster without TLS, or whose servers
// are not verified.
func Exposed(imp *model.Import) (out []report.Finding) {
	for i := range imp.Exposed {
		e := &imp.Exposed[i]
		section, fixes := e.Cluster.Member, exporterFixes{e.Member, e.Cluster.Member}
		if e.Cluster.Kind == model.ImportPickerKind {
			section += ".picker"
		}
		write := fmt.Sprintf("write a BackendTLSPolicy for %s with sectionName %s", imp.Ref, section)
		found := func(severity report.Severity, problem, fix string) {
			out = append(out, report.Finding{
				Severity: severity, Owner: imp.Ref, Field: e.Field,
				Problem: "cluster " + e.Cluster.Member + ": " + problem, Fix: fix,
			})
		}
		// A picker's BackendTLSPolicy does not affect ports that are marked as cleartext.
		if e.Cleartext && (!e.Policy || e.Cluster.Kind == model.ImportPickerKind) {
			fix := write
			switch e.Cluster.Kind {
			case model.ImportPickerKind:
				fix = fixes.pickerTLS()
			case model.ParentKind:
				fix = fixes.gatewayTLS() + ", or " + write
			}
			found(report.Warning, "requests, with their prompts, are sent to "+e.Who+" in cleartext", fix)
		}
		if e.TLS && !e.Policy {
			found(report.Info, "requests are sent to "+e.Who+" over TLS, and the certificate is not verified", write)
		}
	}
	return out
}
