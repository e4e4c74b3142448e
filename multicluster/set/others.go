package set

import (
	"fmt"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// ConflictedReason is the reason of the condition Accepted of a ClusterSet that is not in use,
// because another ClusterSet is (Selected).
const ConflictedReason = "Conflicted"

// Selected returns the ClusterSet in use: the oldest one, and of equally old ones the first by
// name; nil: none exists.
func Selected(r store.Reader) (set *v1alpha1.ClusterSet) {
	for _, c := range store.ClusterSets.All(r) {
		if set == nil || c.CreationTimestamp.Before(&set.CreationTimestamp) {
			set = c
		}
	}
	return set
}

// CreatesNamespaces reports whether the ClusterSet lets Penstock create the namespaces of imports.
func CreatesNamespaces(r store.Reader) bool {
	set := Selected(r)
	return set != nil && set.Spec.CreateNamespaces
}

func others(r store.Reader, counts *v1alpha1.ClusterSet) (out []report.Report) {
	for _, c := range store.ClusterSets.All(r) {
		if c.Name != counts.Name {
			out = append(out, report.Report{Owner: store.ClusterSets.Ref(c), Conditions: []report.Condition{{
				Type: "Accepted", Status: report.False, Reason: ConflictedReason,
				Message: fmt.Sprintf("a cluster has one ClusterSet, and %s counts: it is older, or first by name",
					counts.Name),
			}}})
		}
	}
	return out
}

const summarized = 8

// summary formats findings as the message of a condition, because a Kubernetes status has no other
// field for them.
func summary(findings []report.Finding) string {
	var parts []string
	for _, f := range findings[:min(len(findings), summarized)] {
		text := f.Field + ": " + f.Problem
		if f.Fix != "" {
			text += "; " + f.Fix
		}
		parts = append(parts, text)
	}
	if more := len(findings) - summarized; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ". ")
}
