package endpointpicker

import "strings"

const (
	ClusterQueueScorer    = "multicluster-queue-scorer"
	ClusterKVCacheScorer  = "multicluster-kv-cache-utilization-scorer"
	ClusterPrefixScorer   = "multicluster-prefix-cache-scorer"
	ClusterSessionFilter  = "multicluster-session-affinity-filter"
	clusterPrefixProducer = "multicluster-approx-prefix-cache-producer"
	clusterDiscovery      = "multicluster-file-discovery"
	clusterDataSource     = "multicluster-metrics-data-source"
	clusterExtractor      = "multicluster-metrics-extractor"
)

const (
	readsImport       = "the InferencePoolImport lists the clusters"
	readsClusterPages = "Penstock reads the load that clusters report, and the pages that endpointPicker.metrics of " +
		"the import names"
)

// Clusters configures the choice among the clusters of an import. Penstock compares clusters by one
// cost in seconds, so weights of scorers have no effect.
type Clusters struct {
	// Prefix means that a scorer reads how much of a prompt each cluster has cached. Session means
	// that sessions stay in a cluster.
	Prefix, Session bool
	prefixField     string // the field of the plugin that sets Prefix
}

type clusterPrefix struct {
	MatchLengthWeight           *float64 `json:"matchLengthWeight"`
	MatchLengthScaleTokens      *int     `json:"matchLengthScaleTokens"`
	PrefixMatchInfoProducerName *string  `json:"prefixMatchInfoProducerName"`
}

func (p *clusterPrefix) check() (out found) {
	const why = "each token of a prompt that a cluster has not cached counts with the time that it takes there"
	out.noEffect("matchLengthWeight", p.MatchLengthWeight != nil, why)
	out.noEffect("matchLengthScaleTokens", p.MatchLengthScaleTokens != nil, why)
	return out
}

func (r *resolver) cluster(p *Profile, in *instance, weight float64, field string) {
	if p.Clusters == nil {
		p.Clusters = &Clusters{}
	}
	switch in.Type {
	case ClusterPrefixScorer:
		p.Clusters.Prefix, p.Clusters.prefixField = true, field
	case ClusterSessionFilter:
		p.Clusters.Session = true
	}
	if weight != 1 {
		r.warn(strings.TrimSuffix(field, ".pluginRef")+".weight",
			"has no effect: the wait of a cluster and the reading of what it has not cached are added up, in seconds",
			"remove it")
	}
}

func (r *resolver) warn(field, problem, fix string) {
	r.problems = append(r.problems, Problem{Warning: true, Field: field, Problem: problem, Fix: fix})
}

func (r *resolver) alone(p *Profile) {
	c := p.Clusters
	if c == nil {
		return
	}
	for _, list := range [][]Instance{p.Filters, p.Scorers} {
		for _, in := range list {
			r.wrong(r.instances[in.Name].field, "remove it, or use its multicluster- variant",
				"%s chooses among model servers, and the document's other plugins choose among clusters", in.Type)
		}
	}
	if c.Prefix && c.Session {
		r.warn(c.prefixField, ClusterPrefixScorer+" has no effect beside "+ClusterSessionFilter+
			": sessions stay in their clusters, and no body is read", "remove one of them")
		c.Prefix = false
	}
	if p.Picker != MaxScorePicker {
		r.warn("plugins", p.Picker+" has no effect: the cluster with the least cost is chosen",
			"remove it, or use "+MaxScorePicker)
	}
	if p.Flow != nil {
		r.warn("flowControl", "has no effect: requests wait in the cluster that serves them",
			"remove it, and set it in the exporting cluster")
		p.Flow = nil
	}
	for i := range r.problems {
		if p := &r.problems[i]; p.Warning && p.Field == "dataLayer" {
			p.Problem = "has no effect: " + readsClusterPages
		}
	}
}
