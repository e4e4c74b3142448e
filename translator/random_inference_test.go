package translator_test

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/inferenceapi/llmd"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func (c *chaos) pool() (store.Op, func(string) store.Op, string) {
	p := &inferencev1.InferencePool{ObjectMeta: c.numbered("pool", 3)}
	p.Spec.Selector.MatchLabels = map[inferencev1.LabelKey]inferencev1.LabelValue{
		"app": pick[inferencev1.LabelValue](c, "a", "b"),
	}
	p.Spec.TargetPorts = []inferencev1.Port{{Number: 8000}}
	if c.some(3) {
		p.Spec.TargetPorts = append(p.Spec.TargetPorts, inferencev1.Port{Number: 8001})
	}
	if c.some(5) {
		p.Spec.AppProtocol = inferencev1.AppProtocolH2C
	}
	if c.some(2) {
		p.Spec.EndpointPickerRef = &inferencev1.EndpointPickerRef{
			Name: inferencev1.ObjectName(fmt.Sprint("svc", c.IntN(3))), Port: &inferencev1.Port{Number: 9002},
			FailureMode: pick(c, inferencev1.EndpointPickerFailOpen, inferencev1.EndpointPickerFailClose),
		}
	}
	return made(store.InferencePools, p)
}

func (c *chaos) importName() string {
	if c.some(4) {
		return pick(c, "imp0-c-0", "imp0-c-1", "imp0-c")
	}
	return fmt.Sprint("imp", c.IntN(2))
}

func (c *chaos) imported() (store.Op, func(string) store.Op, string) {
	imp := &inferenceapi.InferencePoolImport{ObjectMeta: c.meta(c.importName())}
	if c.some(4) {
		imp.Labels, imp.CreationTimestamp = map[string]string{v1alpha1.ImportedByLabel: "penstock"},
			metav1.Unix(0, int64(c.IntN(3))*1000)
	}
	for i := range c.IntN(3) {
		imp.Status.Clusters = append(imp.Status.Clusters, c.importedCluster(i))
	}
	c.Shuffle(len(imp.Status.Clusters), func(i, j int) {
		l := imp.Status.Clusters
		l[i], l[j] = l[j], l[i]
	})
	return made(store.InferencePoolImports, imp)
}

func (c *chaos) importedCluster(i int) inferenceapi.ImportedCluster {
	svc := []inferenceapi.ServiceImport{
		{Addresses: []string{pick(c, "10.9.0.1", "10.9.0.2", "gpu.example")},
			Ports: []inferenceapi.Port{{Number: 9002}}},
	}
	m := inferenceapi.ImportedCluster{Name: fmt.Sprint("c-", i),
		RoutingMode: pick(c, inferenceapi.EndpointMode, inferenceapi.ParentMode), TargetPortNumber: 8000}
	if c.some(3) {
		m.Weight = ptr(pick[int32](c, 0, 1, 3))
	}
	if c.some(3) {
		m.Endpoints = []inferenceapi.ImportedEndpoint{{Address: fmt.Sprint("10.8.0.", c.IntN(3))}}
	}
	if !c.some(5) {
		m.EndpointPicker = &inferenceapi.EndpointPickerImport{Service: svc}
		m.Parents = []inferenceapi.ParentImport{{Service: svc}}
		if c.some(2) {
			m.EndpointPicker.Health = &inferenceapi.EndpointImport{
				Port: 9003, SecretRef: &corev1.SecretReference{Name: fmt.Sprint("cert", c.IntN(3))},
			}
			m.EndpointPicker.Metrics = &inferenceapi.EndpointImport{
				Port: 9090, SecretRef: m.EndpointPicker.Health.SecretRef,
			}
		}
	}
	return m
}

// offer draws another cluster's export to an import that may not exist.
func (c *chaos) offer() (store.Op, func(string) store.Op, string) {
	name, cluster := c.importName(), c.importedCluster(c.IntN(3))
	if c.some(4) {
		cluster.Name = strings.TrimPrefix(cluster.Name, "c-")
	}
	o := &store.Offer{ObjectMeta: c.meta(store.OfferName(name, cluster.Name)), Import: name, Cluster: cluster,
		Since: int64(c.IntN(3))}
	if c.some(3) {
		o.Allowed, o.Pods = []string{pick(c, "10.9.0.1/32", "10.0.0.0/8")}, []string{"10.8.0.0/31"}
	}
	return made(store.Offers, o)
}

func (c *chaos) failback() (store.Op, func(string) store.Op, string) {
	f := &store.Failback{ObjectMeta: c.numbered("imp", 2), Clusters: []string{pick(c, "c-0", "c-1", "none")}}
	return made(store.Failbacks, f)
}

func (c *chaos) servers() (store.Op, func(string) store.Op, string) {
	m := &v1alpha1.ModelServers{ObjectMeta: c.numbered("servers", 2)}
	m.Labels = map[string]string{"app": pick(c, "a", "b")}
	for range 1 + c.IntN(2) {
		s := v1alpha1.ModelServer{Address: pick(c, "10.2.0.1", "10.2.0.2", "gpu.example"), Draining: c.some(4)}
		if c.some(3) {
			s.Labels = map[string]string{"app": pick(c, "a", "b")}
		}
		if c.some(3) {
			s.Ports = []int32{9000}
		}
		m.Spec.Servers = append(m.Spec.Servers, s)
	}
	return made(store.ModelServers, m)
}

func (c *chaos) policy() (store.Op, func(string) store.Op, string) {
	p := &v1alpha1.PoolPolicy{ObjectMeta: c.numbered("policy", 3)}
	p.Spec.TargetRef = v1alpha1.PoolRef{Kind: "InferencePool", Name: fmt.Sprint("pool", c.IntN(3))}
	if c.some(4) {
		p.Spec.TargetRef = v1alpha1.PoolRef{Kind: "InferencePoolImport", Name: c.importName()}
		if c.some(2) {
			p.Spec.Selection = &v1alpha1.SelectionSpec{
				Within: &v1alpha1.WithinSpec{Clusters: []string{pick(c, "c-0", "c-1", "none")}},
			}
		} else if c.some(2) {
			p.Spec.Selection = &v1alpha1.SelectionSpec{
				Policy: v1alpha1.SelectLocality, Within: pick(c, nil, &v1alpha1.WithinSpec{Regions: []string{"eu"}}),
			}
		} else if c.some(2) {
			p.Spec.Selection = &v1alpha1.SelectionSpec{
				Policy: v1alpha1.SelectPriority, Order: []string{pick(c, "c-0", "c-1", "none")},
			}
		} else if c.some(2) {
			p.Spec.RetryOn = []v1alpha1.RetryCause{v1alpha1.RetryTooManyRequests}
			p.Spec.Selection = &v1alpha1.SelectionSpec{
				Policy:      pick(c, v1alpha1.SelectLeastLoad, v1alpha1.SelectLatency),
				Affinity:    pick(c, v1alpha1.AffinityPrefix, v1alpha1.AffinityNone),
				LocalMargin: pick(c, nil, &metav1.Duration{Duration: time.Second}),
			}
		}
	}
	if c.some(3) {
		p.Spec.Subset = c.subset()
	}
	if c.some(4) {
		p.Spec.ExternalPicker = &v1alpha1.ExternalPickerSpec{
			DestinationKey: pick(c, "", "x-pod"), DestinationNamespace: pick(c, "", "picks"),
		}
	}
	if c.some(4) {
		p.Spec = v1alpha1.PoolPolicySpec{Subset: c.subset()}
		return made(store.PoolPolicies, p)
	}
	p.Spec.Picker.Strategy = pick(c, v1alpha1.StrategyLoad, v1alpha1.StrategyRoundRobin)
	p.Spec.Picker.FailureMode = pick(c, "", "FailOpen", "FailClose")
	p.Spec.Picker.Body = pick(c, "", "None", "Buffered")
	for range c.IntN(3) {
		ref := v1alpha1.PoolRef{Kind: pick(c, "InferencePool", "InferencePoolImport"),
			Namespace: pick(c, "", "", "other")}
		if ref.Name = fmt.Sprint("pool", c.IntN(3)); ref.Kind == "InferencePoolImport" {
			ref.Name = c.importName()
		}
		p.Spec.Spill = append(p.Spec.Spill, ref)
	}
	return made(store.PoolPolicies, p)
}

func (c *chaos) learned() (store.Op, func(string) store.Op, string) {
	l := &store.Learned{ObjectMeta: c.meta(store.LearnedName(fmt.Sprint("imp", c.IntN(2)), "c-0"))}
	for range c.IntN(3) {
		l.Endpoints = append(l.Endpoints, fmt.Sprintf("10.6.0.%d:8000", c.IntN(3)))
	}
	return made(store.LearnedEndpoints, l)
}

func (c *chaos) dialect() (store.Op, func(string) store.Op, string) {
	return made(store.Dialects,
		&store.Dialect{
			ObjectMeta: metav1.ObjectMeta{
				Name: pick(c, "picker/default/svc0/9002", "import-picker/default/imp0/c-0"),
			},
			Acknowledges: c.some(2), Health: c.some(2), Lost: c.some(2), Frozen: c.some(2),
		})
}

func (c *chaos) model() (store.Op, func(string) store.Op, string) {
	m := &inferenceapi.InferenceModel{ObjectMeta: c.numbered("model", 3)}
	m.Spec.ModelName, m.Spec.PoolRef.Name = pick(c, "llama", "qwen"), fmt.Sprint("pool", c.IntN(3))
	m.Spec.Criticality = pick(c, "", "Critical", "Sheddable")
	for i := range c.IntN(3) {
		m.Spec.TargetModels = append(m.Spec.TargetModels,
			inferenceapi.TargetModel{Name: fmt.Sprint("v", i), Weight: pick(c, nil, ptr(int32(c.IntN(3))))})
	}
	return made(store.InferenceModels, m)
}

func (c *chaos) rewrite() (store.Op, func(string) store.Op, string) {
	rw := &llmd.InferenceModelRewrite{ObjectMeta: c.numbered("rewrite", 3)}
	rw.Spec.PoolRef = &llmd.PoolObjectReference{Name: fmt.Sprint("pool", c.IntN(3)),
		Kind: pick(c, "", "InferencePool", "InferencePool", "Service")}
	for range c.IntN(3) {
		var rule llmd.InferenceModelRewriteRule
		for range c.IntN(3) {
			rule.Matches = append(rule.Matches, llmd.Match{Model: &llmd.ModelMatch{Value: pick(c, "llama", "qwen")}})
		}
		for i := range c.IntN(3) {
			rule.Targets = append(rule.Targets, llmd.TargetModel{ModelRewrite: fmt.Sprint("r", i)})
		}
		rw.Spec.Rules = append(rw.Spec.Rules, rule)
	}
	return made(store.InferenceModelRewrites, rw)
}

func (c *chaos) inferenceObjective() (store.Op, func(string) store.Op, string) {
	o := &llmd.InferenceObjective{ObjectMeta: c.numbered("objective", 2)}
	o.Spec.PoolRef.Name = fmt.Sprint("pool", c.IntN(3))
	if c.some(2) {
		o.Spec.Priority = ptr(int32(c.IntN(5) - 2))
	}
	return made(store.InferenceObjectives, o)
}
