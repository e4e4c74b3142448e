package server

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/xds/publish"
)

const nackReason = "Invalid"

// The caller holds st.mu.
func (st *stream) reportChanged() {
	if st.machine.RejectionsSeq() != st.reported || len(st.undecided()) != len(st.inherited) {
		st.report()
	}
}

// undecided returns an earlier stream's rejections that the proxy has not decided on this stream.
func (st *stream) undecided() (out []publish.Rejection) {
	for _, r := range st.inherited {
		if st.machine.Undecided(r.Ref) {
			out = append(out, r)
		}
	}
	return out
}

func (st *stream) name() proxyName { return proxyName{st.gateway, st.node.GetId()} }

// The caller holds st.mu, so Config.Reports must not call the Server.
func (st *stream) report() {
	st.reported = st.machine.RejectionsSeq()
	rejections := st.machine.Rejections()
	for _, r := range rejections {
		st.server.config.Log.Warn("NACK received", "gateway", st.gateway, "node", st.node.GetId(),
			"type", r.Ref.Type.String(), "name", r.Ref.Name, "version", r.Version, "detail", r.Message)
	}
	if st.server.config.Reports == nil {
		return
	}
	st.inherited = st.undecided()
	rejections = append(rejections, st.inherited...)
	st.server.rejections.record(st, rejections)
	st.server.config.Reports.Rejected(st.gateway, st.node.GetId(), reportsOf(rejections))
}

const leftOut = "the member is left out, and the others are in force: replace that cluster's certificate authority"

func reportsOf(rejections []publish.Rejection) []report.Report {
	slices.SortFunc(rejections, func(a, b publish.Rejection) int { return a.Ref.Compare(b.Ref) })
	byOwner := map[report.Ref][]publish.Rejection{}
	for _, r := range rejections {
		for _, o := range r.Owners {
			byOwner[o] = append(byOwner[o], r)
		}
	}
	owners := slices.SortedFunc(maps.Keys(byOwner), report.Ref.Compare)
	out := make([]report.Report, 0, len(owners))
	for _, o := range owners {
		rep := report.Report{Owner: o}
		var messages []string
		for _, r := range byOwner[o] {
			what, instead := r.Ref.String(), "the last good version stays in force"
			if r.Host != "" {
				what, instead = fmt.Sprintf("host %s of %s", r.Host, r.Ref),
					"it answers 500, or as before; the rest is in force"
			}
			if r.Route != "" {
				what = fmt.Sprintf("route %s of %s", r.Route, what)
			}
			if r.Member != "" {
				what, instead = fmt.Sprintf("the certificates of member %s in %s", r.Member, r.Ref), leftOut
			}
			problem, fix := fmt.Sprintf("Envoy rejects %s: %s", what, strings.TrimSpace(r.Message)), ""
			if strings.Contains(r.Message, "Address already in use") {
				// Envoy accepts the resent listener once the port is free.
				instead, fix = "it is sent again", "free the port, or choose another one"
			}
			messages = append(messages, problem)
			rep.Findings = append(rep.Findings, report.Finding{
				Severity: report.Error, Owner: o, Problem: problem + "; " + instead, Fix: fix,
			})
		}
		rep.Conditions = []report.Condition{report.NotProgrammed(nackReason, strings.Join(messages, "\n"))}
		out = append(out, rep)
	}
	return out
}

func version(major, minor, patch uint32) string {
	n := func(v uint32) string { return strconv.FormatUint(uint64(v), 10) }
	return n(major) + "." + n(minor) + "." + n(patch)
}
