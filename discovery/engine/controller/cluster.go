package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/about"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const (
	fieldCluster          = "spec.cluster"
	clusterNotFoundReason = "ClusterNotFound"
)

// clusterNames are this cluster's names, by the ClusterSet or ClusterProperty that sets the name.
type clusterNames map[object]string

func (c clusterNames) follow(op store.Op) bool {
	key := object{op.Kind(), op.ID()}
	before := c[key]
	switch op.Kind() {
	case store.ClusterSets.Kind(), store.ClusterProperties.Kind():
		delete(c, key)
	default:
		return false
	}
	switch o := op.Object().(type) {
	case *v1alpha1.ClusterSet:
		c[key] = o.Spec.Cluster
	case *about.ClusterProperty:
		if o.Name == about.ClusterName {
			c[key] = o.Spec.Value
		}
	}
	return before != c[key]
}

func (c clusterNames) String() string {
	names := slices.DeleteFunc(slices.Sorted(maps.Values(c)), func(name string) bool { return name == "" })
	return strings.Join(slices.Compact(names), " or ")
}

func (c clusterNames) check(d *v1alpha1.ModelDeployment) *report.Finding {
	wanted, own := d.Spec.Cluster, c.String()
	for _, name := range c {
		if name == wanted {
			return nil
		}
	}
	if wanted == "" {
		return nil
	}
	f := &report.Finding{Severity: report.Error, Field: fieldCluster,
		Problem: fmt.Sprintf("there is no cluster %q here: this cluster is %s, and Penstock starts servers in it "+
			"alone", wanted, own), Fix: "write " + own + ", or remove it"}
	if own == "" {
		f.Problem = fmt.Sprintf("there is no cluster %q here: this cluster has no name, and Penstock starts servers "+
			"in it alone", wanted)
		f.Fix = "remove it, or name this cluster by spec.cluster of a ClusterSet"
	}
	return f
}
