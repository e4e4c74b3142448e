package set

import (
	"fmt"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/about"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// NoNameReason is the reason of the condition Accepted of a ClusterSet in a cluster without a name.
const NoNameReason = "NoClusterName"

// nameOf returns this cluster's name: spec.cluster or, if that is empty, the cluster's
// ClusterProperty (KEP-2149); "": both are missing. findings has problems of the name.
func nameOf(r store.Reader, set *v1alpha1.ClusterSet) (name string, findings []report.Finding) {
	found := func(severity report.Severity, problem, fix string) []report.Finding {
		return []report.Finding{
			{Severity: severity, Owner: store.ClusterSets.Ref(set), Field: "spec.cluster", Problem: problem, Fix: fix},
		}
	}
	property, stands := store.ClusterProperties.Get(r, about.ClusterName)
	name = set.Spec.Cluster
	switch {
	case name != "" && stands && property.Spec.Value != name:
		return name, found(report.Warning,
			fmt.Sprintf("it is %s, and counts: ClusterProperty %s has another name in spec.value, %.100q", name,
				about.ClusterName, property.Spec.Value), "write the same name into both")
	case name != "":
		return name, nil
	case !stands:
		return "", found(report.Error,
			fmt.Sprintf("this cluster has no name: the field is empty, and there is no ClusterProperty %s (%s)",
				about.ClusterName, about.Group),
			"write the name of this cluster here, or into spec.value of a ClusterProperty "+about.ClusterName)
	}
	if problem := v1alpha1.CheckClusterName(property.Spec.Value); problem != "" {
		return "", found(report.Error,
			fmt.Sprintf(
				"this cluster has no name: the field is empty, and spec.value of ClusterProperty %s is invalid: %s",
				about.ClusterName, problem), "correct the value there, or write the name of this cluster here")
	}
	return property.Spec.Value, nil
}

func ownName(r store.Reader) (name string) {
	if set := Selected(r); set != nil {
		name, _ = nameOf(r, set)
	}
	return name
}

func nameless(set *v1alpha1.ClusterSet, findings []report.Finding) report.Report {
	return report.Report{Owner: store.ClusterSets.Ref(set), Findings: findings, Conditions: []report.Condition{{
		Type: "Accepted", Status: report.False, Reason: NoNameReason, Message: summary(findings),
	}}}
}
