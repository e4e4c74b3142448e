package export

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/registry"
)

const (
	conditionExported = "Exported"
	ExportedReason    = "Exported"
)

// MemberUnreachableReason is the reason of the condition Exported while a member has not confirmed
// that it imported the pool.
const MemberUnreachableReason = "MemberUnreachable"

// IsFor reports whether a member may import the pool.
func (e *Export) IsFor(member string) bool { return e.To == nil || slices.Contains(e.To, member) }

// Has reports whether a placement is about this export, not about an earlier export of the pool.
func (e *Export) Has(p registry.Placement) bool { return p.Any || p.Incarnation == e.Incarnation }

// Continues reports whether an export keeps the incarnation of before. It does unless a member may
// newly import the pool. before may be nil.
func (e *Export) Continues(before *Export) bool {
	return before != nil &&
		(before.To == nil || e.To != nil && !slices.ContainsFunc(e.To, func(m string) bool { return !before.IsFor(m) }))
}

// Exported returns a pool's condition Exported. The condition is True once every member that may
// import the pool has imported it.
func Exported(d Decision, members []string, placements []registry.Placement) report.Condition {
	out := report.Condition{Type: conditionExported, Status: report.False, Reason: d.Reason, Message: d.Message}
	if d.Export == nil || d.Kept {
		return out
	}
	failed := map[string][]string{}
	why := map[string]string{}
	var reasons []string
	imported := 0
	for _, m := range members {
		if !d.Export.IsFor(m) {
			continue
		}
		reason := MemberUnreachableReason
		if i := slices.IndexFunc(placements, func(p registry.Placement) bool {
			return p.Member == m && d.Export.Has(p)
		}); i >= 0 {
			reason, why[m] = placements[i].Reason, placements[i].Message
		}
		if reason == "" {
			imported++
			continue
		}
		if failed[reason] == nil {
			reasons = append(reasons, reason)
		}
		failed[reason] = append(failed[reason], m)
	}
	if len(reasons) == 0 {
		out.Status, out.Reason = report.True, ExportedReason
		out.Message = "imported by " + counted(imported) + d.Export.only()
		if imported == 0 {
			out.Message = "the ClusterSet has no member that may import it"
		}
		return out
	}
	slices.Sort(reasons)
	out.Reason = reasons[0]
	var parts []string
	for _, reason := range reasons {
		list := failed[reason]
		slices.Sort(list)
		text := registry.Listed(list)
		if i := slices.IndexFunc(list, func(m string) bool { return why[m] != "" }); i >= 0 {
			prefix := ""
			if len(list) > 1 {
				prefix = list[i] + ": "
			}
			text += fmt.Sprintf(" (%s%s)", prefix, plain(why[list[i]]))
		}
		parts = append(parts, fmt.Sprintf("%s: %s", reason, text))
	}
	out.Message = fmt.Sprintf("imported by %s, and not by others: %s", counted(imported), strings.Join(parts, "; "))
	return out
}

func counted(members int) string {
	if members == 1 {
		return "1 member"
	}
	return fmt.Sprintf("%d members", members)
}

// longestMessage bounds the text that a condition quotes from another cluster, in bytes.
const longestMessage = 640

func plain(message string) string {
	message = strings.ToValidUTF8(message[:min(len(message), longestMessage)], "")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, message)
}

func (e *Export) only() string {
	switch {
	case e.Offered:
	case slices.ContainsFunc(e.Entry.Parents, func(p inferenceapi.ParentImport) bool { return p.Peer }):
		return fmt.Sprintf("; only members can use it, by the peer listener of its Gateways: for others, start "+
			"penstock with --offer %s/%s", e.Pool.Namespace, e.Pool.Name)
	case e.Entry.EndpointPicker != nil && e.Entry.EndpointPicker.Peer:
		return "; only members can use it, because its picker serves only their Gateways: for others, start " +
			"penstock with --picker-open"
	case e.Entry.EndpointPicker != nil && e.Entry.EndpointPicker.Pool != "":
		return fmt.Sprintf("; only members can use it, because its picker serves several pools and they name it: for "+
			"others, start penstock with --offer %s/%s=PORT", e.Pool.Namespace, e.Pool.Name)
	}
	return ""
}
