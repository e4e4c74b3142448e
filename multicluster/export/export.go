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

// Config configures Decide.
type Config struct {
	// Cluster is this cluster's name in the set; Members are the others' names.
	Cluster string
	Members []string
	// Pickers are the addresses of this cluster's own picker for other clusters, if any. Cleartext:
	// it speaks gRPC without TLS.
	Pickers   []netip.AddrPort
	Cleartext bool
	// MembersPick: Pickers serve only members' Gateways.
	MembersPick bool
	// Offers are pools that other gateways may use. In EndpointMode the value is a port of Pickers
	// that serves this pool only; 0: there is no such port. In ParentMode other gateways use the
	// ordinary addresses of this cluster's Gateways.
	Offers map[objectid.Pool]int32
	// PeerListener is true if Gateways have or will have a peer listener. Members use it in
	// ParentMode.
	PeerListener bool
	// Region and Zone of this cluster; "": unknown.
	Region, Zone string
	// PodCIDRs are this cluster's pod ranges, for importers; none: unknown.
	PodCIDRs []string
	// Hub is true if a hub decides. A hub has only the objects of the cluster, so Pool.Own has the
	// address of the cluster's own picker.
	Hub bool
	// NodeAddress returns a node's address for other clusters, "": unknown; nil: read it from the
	// Pods in the store.
	NodeAddress func(name string) string
}

// Export is a pool that this cluster exports.
type Export struct {
	Pool  objectid.Pool
	Entry inferenceapi.ImportedCluster
	// To are the members that may import it; nil: all.
	To []string
	// Offered: other gateways can use it by Config.Offers.
	Offered bool
	// Incarnation changes if some member that may import the pool now could not import it before.
	// Reports on an earlier incarnation do not count. cmd sets it.
	Incarnation uint64
}

// Decision is the result for a pool with annotations about exports.
type Decision struct {
	Pool objectid.Pool
	// Asked: the annotations request the export. Otherwise there are only findings.
	Asked bool
	// Valid is true if the annotations, or the annotations in Wish, are valid. To has the members
	// that they name; nil: all.
	Valid bool
	To    []string
	// Wish is the content of the last valid annotations; nil: none.
	Wish *Wish
	// Kept: the annotations are invalid, and Export follows Wish. Reason and Message describe the
	// problem.
	Kept bool
	// Waiting: members cannot reach a peer listener of any Gateway yet. The previous export stays
	// meanwhile.
	Waiting bool
	Export  *Export
	// Reason and Message are why it is not exported, for the condition Exported.
	Reason, Message string
	Findings        []report.Finding
}

// Decide decides on a pool; ok is false if it does not exist.
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
		// An export-to without any member withdraws the pool from its former members.
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
			Problem: fmt.Sprintf("other clusters reach only the first addresses of the picker: "+
				"the export has no room for %d more", cut),
		})
	}
	d.Export = &Export{Pool: d.Pool, Entry: e, To: w.to}
	if port, ok := c.Offers[id]; ok {
		d.Export.Offered = w.mode == inferenceapi.ParentMode || port > 0
	}
	return d, true
}
