package picker

import (
	"strings"

	"github.com/penstock-project/penstock/picker/extproc"
)

// The inference extension's conformance suite uses these headers.
const (
	selectionHeader = "test-epp-endpoint-selection"
	servedHeader    = "x-conformance-test-served-endpoint"
)

func (p *Protocol) subset(headers *extproc.Message) (entries []string, restricted bool) {
	if p.Conformance {
		if chosen := headers.Header(selectionHeader); len(chosen) > 0 {
			for entry := range strings.SplitSeq(string(chosen), ",") {
				entries = append(entries, strings.TrimSpace(entry))
			}
			return entries, true
		}
	}
	if p.IgnoreSubset {
		return nil, false
	}
	return headers.Subset(p.Subset)
}

type servedReport struct{ extproc.Tracker }

func (s servedReport) Response(r extproc.Response) extproc.Header {
	s.Tracker.Response(r)
	served := r.Served
	if served == "" {
		served = "fail: the gateway has not reported which endpoint served"
	}
	return extproc.Header{Name: servedHeader, Value: served}
}
