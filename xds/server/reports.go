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

// What is said about the owner of a refused resource. The type and the reason are Gateway API's for a Gateway; other
// kinds have no standard condition that means "the proxies run it".
const (
	conditionType   = "Programmed"
	conditionReason = "Invalid"
)

// tell hands on what the proxy refuses, if it may have changed. A proxy that came back is listened to when it has been
// offered everything, so that nothing is taken back for a moment. Called with mu held.
func (st *stream) tell() {
	if st.heir && st.machine.Settled() || !st.heir && st.machine.News() != st.news {
		st.report()
	}
}

func (st *stream) name() proxyName { return proxyName{st.gateway, st.node.GetId()} }

// report hands on what the proxy refuses now. Called with mu held: Reports must not call back.
func (st *stream) report() {
	st.heir = false
	st.news = st.machine.News()
	rejections := st.machine.Rejections()
	for _, r := range rejections {
		st.server.config.Log.Warn("proxy refused a resource", "gateway", st.gateway, "node", st.node.GetId(),
			"type", r.Ref.Type.String(), "name", r.Ref.Name, "version", r.Version, "message", r.Message)
	}
	if st.server.config.Reports == nil {
		return
	}
	st.server.refusals.speak(st, len(rejections) > 0)
	st.server.config.Reports.Refused(st.gateway, st.node.GetId(), reportsOf(rejections))
}

// reportsOf makes one report an owner.
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
			what, instead := r.Ref.String(), "what it had before stays in force"
			if r.Host != "" {
				what, instead = fmt.Sprintf("host %s of %s", r.Host, r.Ref), "it answers 500, or as before; all else is in force"
			}
			if r.Route != "" {
				what = fmt.Sprintf("route %s of %s", r.Route, what)
			}
			problem, fix := fmt.Sprintf("Envoy refuses %s: %s", what, strings.TrimSpace(r.Message)), ""
			if strings.Contains(r.Message, "Address already in use") {
				// Not the configuration's fault: it is sent again, and comes when the port is free.
				instead, fix = "it is tried again", "end what uses the port, or choose another one"
			}
			messages = append(messages, problem)
			rep.Findings = append(rep.Findings, report.Finding{
				Severity: report.Error, Owner: o, Problem: problem + "; " + instead, Fix: fix,
			})
		}
		rep.Conditions = []report.Condition{{
			Type: conditionType, Status: report.False, Reason: conditionReason, Message: strings.Join(messages, "\n"),
		}}
		out = append(out, rep)
	}
	return out
}

func version(major, minor, patch uint32) string {
	n := func(v uint32) string { return strconv.FormatUint(uint64(v), 10) }
	return n(major) + "." + n(minor) + "." + n(patch)
}
