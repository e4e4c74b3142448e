package export

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// Config is what Decide needs beside the store.
type Config struct {
	// Cluster is this cluster's name in the set; Members are the names of the others.
	Cluster string
	Members []string
	// Pickers are where other clusters reach this cluster's own picker; none: they do not.
	// Cleartext: it speaks gRPC without TLS.
	Pickers   []netip.AddrPort
	Cleartext bool
	// MembersPick: Pickers serve Gateways of members alone.
	MembersPick bool
	// Offers are the pools that gateways of others may use: in ParentMode by the Gateways' ordinary
	// addresses, also where there is a peer listener; in EndpointMode at a port of Pickers that
	// serves picks from this pool alone; 0: there is none.
	Offers map[objectid.Pool]int32
	// PeerListener: Gateways have one, or will, and members use it in ParentMode.
	PeerListener bool
	// Region and Zone of this cluster; "": not known.
	Region, Zone string
	// PodCIDRs are the ranges of this cluster's pods, for importers; none: they are not known.
	PodCIDRs []string
	// Hub: the decision is a hub's, about a cluster of which it has the objects alone. So its own
	// picker is where Pool.Own has it.
	Hub bool
	// NodeAddress is where other clusters reach a node, "" if that is not known; nil: Pods have it,
	// as far as they are in the store.
	NodeAddress func(name string) string
}

// Export is a pool that this cluster exports.
type Export struct {
	Pool  objectid.Pool
	Entry inferenceapi.ImportedCluster
	// To are the members that it is for; nil: all.
	To []string
	// Offered: it is one of Config.Offers that gateways of others can use.
	Offered bool
	// Incarnation is another one after the pool was not exported, or not to a member that it is for
	// now: what members report of an earlier one does not count. cmd sets it.
	Incarnation uint64
}

// Decision is what becomes of a pool's wish to be exported.
type Decision struct {
	Pool objectid.Pool
	// Asked: the annotations ask for it. Else there are findings at most.
	Asked bool
	// Valid: the annotations are, or those of Wish count. To are the members that they are for;
	// nil: all.
	Valid bool
	To    []string
	// Wish is what they ask for, or did when they were valid last; nil: they never were.
	Wish *Wish
	// Kept: they are invalid, and Export is by Wish. Reason and Message are what is wrong with
	// them.
	Kept bool
	// Waiting: it is not exported because members reach the peer listener of no Gateway yet. What
	// was exported before stays meanwhile.
	Waiting bool
	Export  *Export // nil: it is not exported
	// Reason and Message are why it is not exported, for the condition Exported.
	Reason, Message string
	Findings        []report.Finding
}

// Decide decides on the pool with a key; false if there is none.
func Decide(r store.Reader, c Config, id objectid.Pool, has Pool) (d Decision, ok bool) {
	pool, ok := store.InferencePools.Get(r, id.String())
	if !ok {
		return d, false
	}
	d.Pool = id
	owner := store.InferencePools.Ref(pool)
	w, asked, problems := parse(pool.Annotations, c.Members)
	d.Asked, d.Findings = asked, findings(owner, problems)
	if !asked {
		return d, true
	}
	if problems = slices.DeleteFunc(problems, func(p problem) bool { return p.harmless }); len(problems) > 0 {
		d.Reason, d.Message = NotSupportedReason,
			fmt.Sprintf("annotation %s: %s; %s", problems[0].annotation, problems[0].text, problems[0].fix)
		// An export-to without any member withdraws the pool from those that had it.
		if has.Before == nil || slices.ContainsFunc(problems,
			func(p problem) bool { return p.annotation == ToAnnotation }) {
			return d, true
		}
		w, d.Kept = *has.Before, true
		d.Message += "; until then it is exported as before, unless Penstock starts again"
	}
	d.Valid, d.To, d.Wish = true, w.to, &w
	e, cut, no := entry(r, c, pool, w, has)
	d.Waiting = no != nil && no.message == noPeer
	if no != nil {
		d.Reason, d.Message, d.Kept = no.reason, no.message, false
		severity := report.Error
		if d.Waiting && len(c.Members) == 0 {
			severity, d.Message = report.Info, noMember
		}
		d.Findings = append(d.Findings, report.Finding{
			Severity: severity, Owner: owner, Field: fmt.Sprintf("metadata.annotations[%s]", Annotation),
			Problem: "the pool is not exported: " + d.Message,
		})
		return d, true
	}
	if cut > 0 {
		d.Findings = append(d.Findings, report.Finding{
			Severity: report.Info, Owner: owner, Field: fmt.Sprintf("metadata.annotations[%s]", Annotation),
			Problem: fmt.Sprintf("other clusters reach the picker at the first of its addresses alone: "+
				"the export has no room for %d more", cut),
		})
	}
	d.Export = &Export{Pool: d.Pool, Entry: e, To: w.to}
	if port, ok := c.Offers[id]; ok {
		d.Export.Offered = w.mode == inferenceapi.ParentMode || port > 0
	}
	return d, true
}
