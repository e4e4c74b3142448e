package inference

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/translator/model"
)

// unknownEngine returns a finding about model servers whose engine label is unknown. A wrong pod
// template affects all servers, so a pool gets one finding.
func unknownEngine(p *model.Pool, members []model.Member) (f report.Finding, found bool) {
	if p.External || !needsPages(&p.Settings) {
		return f, false
	}
	var first *model.Member
	var label, value string
	unknown := map[string]bool{} // keyed by server, because a server has an address for each port
	for i := range members {
		key, engine := endpointpicker.EngineOf(members[i].Labels)
		if engine == "" || slices.Contains(endpointpicker.Engines, engine) {
			continue
		}
		if unknown[members[i].Pod] = true; first == nil {
			first, label, value = &members[i], key, engine
		}
	}
	if first == nil {
		return f, false
	}
	kind := "Pod"
	if strings.Contains(first.Pod, "/") {
		kind = "ModelServers"
	}
	problem := fmt.Sprintf(
		"%s %s has the label %s: %.63q, which is no known engine: its metrics are read as metrics of %s", kind,
		first.Pod,
		label, value, cmp.Or(p.Settings.Engine, endpointpicker.Engines[0]))
	if more := len(unknown) - 1; more > 0 {
		have := "have"
		if more == 1 {
			have = "has"
		}
		problem += fmt.Sprintf("; %d more %s an unknown engine", more, have)
	}
	last := len(endpointpicker.Engines) - 1
	fix := "write " + strings.Join(endpointpicker.Engines[:last], ", ") + " or " + endpointpicker.Engines[last] +
		" in the label, or remove it and set picker.metrics in a PoolPolicy"
	if i := slices.IndexFunc(endpointpicker.Engines,
		func(known string) bool { return strings.EqualFold(known, value) }); i >= 0 {
		fix = "write " + endpointpicker.Engines[i] + " in the label, in lower case"
	}
	return warningOn(p.Ref, "spec.selector", problem, fix), true
}
