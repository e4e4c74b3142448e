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
	// Cluster is this cluster's name in the set. Members are the names of the other members.
	Cluster string
	Members []string
	// Pickers are the addresses of this cluster's Penstock picker for other clusters. Cleartext
	// means that the picker serves gRPC without TLS.
	Pickers   []netip.AddrPort
	Cleartext bool
	// MembersPick means that Pickers serve no gateways of other clusters except members' Gateways.
	MembersPick bool
	// Offers are the pools that gateways outside the cluster set may use, too. In EndpointMode, the
	// value is the port at which Pickers serve this pool alone; 0: there is no such port.
	Offers map[objectid.Pool]int32
	// PeerListener means that Gateways have or will have a peer listener.
	PeerListener bool
	// Region and Zone locate this cluster; "": unknown.
	Region, Zone string
	// PodCIDRs are this cluster's pod ranges, which the entries state for importers. Empty:
	// unknown.
	PodCIDRs []string
	// Hub means that a hub calls Decide, for a member. The picker's addresses then come from
	// Pool.Own instead of Pickers.
	Hub bool
	// NodeAddress returns a node's address for other clusters; "": unknown. If NodeAddress is nil,
	// node addresses come from the Pods in the store.
	NodeAddress func(name string) string
}

// Export is a pool that this cluster exports.
type Export struct {
	Pool  objectid.Pool
	Entry inferenceapi.ImportedCluster
	// To are the members that may import the pool; nil: all members.
	To []string
	// Offered means that gateways outside the cluster set can use the export (Config.Offers).
	Offered bool
	// Incarnation is a number that changes when a member may newly import the pool. Members'
	// reports on an earlier incarnation are ignored. The caller of Decide sets Incarnation.
	Incarnation uint64
}

// Decision states whether a pool is exported, and why not.
type Decision struct {
	Pool objectid.Pool
	// Asked means that the annotations request the export. If it is false, only Findings is set.
	Asked bool
	// Valid means that the annotations are valid, or that Kept is set. To has the members that may
	// import the pool; nil: all members.
	Valid bool
	To    []string
	// Wish is the content of the last valid annotations; nil: none.
	Wish *Wish
	// Kept means that the annotations are invalid, so Export follows the previous annotations.
	Kept bool
	// Waiting means that the pool waits for a Gateway's peer listener. Until one exists, the caller
	// keeps the previous export.
	Waiting bool
	Export  *Export
	// Reason and Message state why the pool is not exported, for the condition Exported.
	Reason, Message string
	Findings        []report.Finding
}

// Decide decides whether and how a pool is exported. ok is false if the pool does not exist.
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
		// If export-to has no valid member, the pool is withdrawn from all members.
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
		d.Findings = append(d.Findings, found(owner, severity, Annotation, "the pool is not exported: "+d.Message, ""))
		return d, true
	}
	if cut > 0 {
		d.Findings = append(d.Findings, found(owner, report.Info, Annotation, fmt.Sprintf("other clusters reach only "+
			"the first addresses of the picker: the export has no room for %d more", cut), ""))
	}
	d.Export = &Export{Pool: d.Pool, Entry: e, To: w.to}
	if port, ok := c.Offers[id]; ok {
		d.Export.Offered = w.mode == inferenceapi.ParentMode || port > 0
	}
	return d, true
}
