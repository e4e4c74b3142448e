package translator_test

import (
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/addresses"
)

// named has a store with a Gateway, its translation, and the reports.
type named struct {
	*testing.T
	store   *store.Store
	tr      *translator.Translator
	reports map[report.Ref]report.Report
}

func newNamed(t *testing.T) *named {
	w := &named{t, store.New(), translator.New(config()), map[report.Ref]report.Report{}}
	w.apply(store.AddressPolicies.Put(addresses.Unrestricted()), store.Gateways.Put(&gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"}, Spec: gatewayv1.GatewaySpec{
			GatewayClassName: "penstock", Listeners: []gatewayv1.Listener{
				{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
			},
		}}))
	return w
}

// apply returns the names of the resources that Envoys receive or, with a prefix "-", lose.
func (w *named) apply(ops ...store.Op) (changed []string) {
	w.Helper()
	rev, err := w.store.Apply(ops...)
	if err != nil {
		w.Fatal(err)
	}
	out := w.tr.Update(w.store.View(), rev.Changes)
	if out.Err != nil {
		w.Fatal(out.Err)
	}
	for _, d := range out.Deltas {
		for _, r := range d.Upserts {
			changed = append(changed, r.Name)
		}
		for _, r := range d.Removes {
			changed = append(changed, "-"+r.Name)
		}
	}
	for _, rep := range out.Reports {
		w.reports[rep.Owner] = rep
	}
	for _, ref := range out.ReportsGone {
		delete(w.reports, ref)
	}
	return changed
}

func (w *named) leads(host string) string {
	w.Helper()
	e := w.tr.Explain(translator.Query{URL: &url.URL{Scheme: "http", Host: host}})
	if len(e.Backends) != 1 {
		return e.Answer
	}
	return e.Backends[0].Cluster
}

func (w *named) finding(kind, name string, words ...string) bool {
	for ref, rep := range w.reports {
		if ref.Kind != kind || ref.Name != name {
			continue
		}
		for _, f := range rep.Findings {
			has := true
			for _, word := range words {
				has = has && strings.Contains(f.String(), word)
			}
			if has {
				return true
			}
		}
	}
	return false
}

// offerSince returns the export of a pool by another cluster, which exists here since this Unix
// time.
func offerSince(since int64, pool, cluster string, withdrawn bool) store.Op {
	o := &store.Offer{Import: pool, Since: since, Cluster: inferenceapi.ImportedCluster{
		Name: cluster, RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000,
		Endpoints: []inferenceapi.ImportedEndpoint{{Address: "10.1.0.1"}},
		EndpointPicker: &inferenceapi.EndpointPickerImport{
			Service: inferenceapi.ServiceImports{
				{Addresses: []string{"192.0.2.9"}, Ports: []inferenceapi.Port{{Number: 9002}}},
			},
		},
	}}
	if withdrawn {
		o.Cluster.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Draining"}}
	}
	o.Namespace, o.Name = "default", store.OfferName(pool, cluster)
	return store.Offers.Put(o)
}

// failingOpen returns the export of a pool by another cluster, whose picker fails open. All such
// clusters of an import share one hop.
func failingOpen(pool, cluster string) store.Op {
	o := &store.Offer{Import: pool, Since: 5, Cluster: inferenceapi.ImportedCluster{
		Name: cluster, RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000, FailureMode: "FailOpen",
		Endpoints: []inferenceapi.ImportedEndpoint{{Address: "10.1.0.1"}},
		EndpointPicker: &inferenceapi.EndpointPickerImport{
			Service: inferenceapi.ServiceImports{
				{Addresses: []string{"192.0.2.9"}, Ports: []inferenceapi.Port{{Number: 9002}}},
			},
		},
	}}
	o.Namespace, o.Name = "default", store.OfferName(pool, cluster)
	return store.Offers.Put(o)
}

func written(name string, clusters ...string) *inferenceapi.InferencePoolImport {
	imp := &inferenceapi.InferencePoolImport{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	for _, c := range clusters {
		imp.Status.Clusters = append(imp.Status.Clusters, inferenceapi.ImportedCluster{
			Name: c, RoutingMode: inferenceapi.ParentMode, Parents: []inferenceapi.ParentImport{{
				Service: []inferenceapi.ServiceImport{
					{Addresses: []string{"192.0.2.80"}, Ports: []inferenceapi.Port{{Number: 80}}},
				}}},
		})
	}
	return imp
}

func tlsPolicy(name, target string) *gatewayv1.BackendTLSPolicy {
	p := &gatewayv1.BackendTLSPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	ref := gatewayv1.LocalPolicyTargetReferenceWithSectionName{}
	ref.Group, ref.Kind, ref.Name = "inference.networking.x-k8s.io", "InferencePoolImport", gatewayv1.ObjectName(target)
	p.Spec.TargetRefs = append(p.Spec.TargetRefs, ref)
	p.Spec.Validation = gatewayv1.BackendTLSPolicyValidation{
		Hostname: "pods.example", WellKnownCACertificates: ptr(gatewayv1.WellKnownCACertificatesSystem),
	}
	return p
}

// The name chat-east means cluster east of import chat. If a cluster then exports a pool named
// chat-east, the requests, policies and spills with this name must stay the same. They also stay
// when the export is withdrawn.
func TestImportName_KeepsItsMeaningWhenAMemberExportsAPoolOfThatName(t *testing.T) {
	w := newNamed(t)
	policy := &v1alpha1.PoolPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "east"}}
	policy.Spec.TargetRef = v1alpha1.PoolRef{Kind: "InferencePoolImport", Name: "chat-east"}
	policy.Spec.ExternalPicker = &v1alpha1.ExternalPickerSpec{DestinationKey: "x-pod"}
	spills := &v1alpha1.PoolPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "spills"}}
	spills.Spec.TargetRef = v1alpha1.PoolRef{Kind: "InferencePoolImport", Name: "code"}
	spills.Spec.Spill = []v1alpha1.PoolRef{{Kind: "InferencePoolImport", Name: "chat-east"}}
	code := importRoute("code", "code")
	code.Spec.Hostnames = []gatewayv1.Hostname{"code.example.com"}
	w.apply(offerSince(1, "chat", "east", false), offerSince(1, "chat", "west", false),
		offerSince(1, "code", "east", false),
		store.HTTPRoutes.Put(importRoute("r", "chat-east")), store.HTTPRoutes.Put(code),
		store.PoolPolicies.Put(policy), store.PoolPolicies.Put(spills),
		store.BackendTLSPolicies.Put(tlsPolicy("tls", "chat-east")))
	const own = "import/default/chat/east"
	if got := w.leads("a.example.com"); got != own {
		t.Fatalf("chat-east leads to %s, want %s", got, own)
	}
	for _, step := range []struct {
		what string
		ops  []store.Op
	}{
		{"a pool of that name", []store.Op{offerSince(2, "chat-east", "north", false)}},
		{
			"one of two members",
			[]store.Op{offerSince(2, "chat-east", "north", false), offerSince(3, "chat-east", "south", false)},
		},
		{
			"one whose exporters fail open", []store.Op{
				failingOpen("chat-east", "north"), failingOpen("chat-east", "south"),
			},
		},
		{
			"an import that Penstock made", []store.Op{
				offerSince(2, "chat-east", "north", false),
				store.InferencePoolImports.Put(madeByPenstock(written("chat-east"))),
			},
		},
		{"its withdrawal, while it drains", []store.Op{offerSince(2, "chat-east", "north", true)}},
		{
			"its end",
			[]store.Op{store.Offers.Delete("default/chat-east.north"), store.Offers.Delete("default/chat-east.south"),
				store.InferencePoolImports.Delete("default/chat-east")},
		},
	} {
		if changed := w.apply(step.ops...); len(changed) > 0 {
			t.Errorf("%s: proxies receive %q, want nothing", step.what, changed)
		}
		if got := w.leads("a.example.com"); got != own {
			t.Errorf("%s: chat-east leads to %s, want %s", step.what, got, own)
		}
	}
	w.apply(offerSince(2, "chat-east", "north", false))
	for _, at := range []struct{ kind, name string }{
		{"HTTPRoute", "r"}, {"InferencePoolImport", "chat-east"}, {"PoolPolicy", "east"}, {"PoolPolicy", "spills"},
		{"BackendTLSPolicy", "tls"},
	} {
		if !w.finding(at.kind, at.name, "chat-east", "cluster east of InferencePoolImport default/chat",
			"InferencePoolImport default/chat-east") {
			t.Errorf("%s %s: want a finding that names both, got %+v", at.kind, at.name, w.reports)
		}
	}
	if w.apply(store.InferencePoolImports.Put(written("chat-east", "north"))); w.leads(
		"a.example.com") != "import/default/chat-east/north" {
		t.Errorf("an import that a user wrote has its exact name: it leads to %s, want import/default/chat-east/north",
			w.leads("a.example.com"))
	}
	if !w.finding("HTTPRoute", "r", "InferencePoolImport default/chat-east",
		"cluster east of InferencePoolImport default/chat") {
		t.Errorf("want a finding of the route, got %+v", w.reports)
	}
}

func madeByPenstock(imp *inferenceapi.InferencePoolImport) *inferenceapi.InferencePoolImport {
	imp.Labels = map[string]string{v1alpha1.ImportedByLabel: "penstock"}
	return imp
}

// imported marks the clusters of an import as imported by a hub since these Unix times; -1 marks a
// cluster as not imported.
func imported(imp *inferenceapi.InferencePoolImport, since ...int64) *inferenceapi.InferencePoolImport {
	for i, at := range since {
		c := metav1.Condition{Type: v1alpha1.ConditionImported, Status: metav1.ConditionTrue,
			LastTransitionTime: metav1.Unix(at, 0)}
		if at < 0 {
			c.Status, c.LastTransitionTime = metav1.ConditionFalse, metav1.Unix(1, 0)
		}
		imp.Status.Clusters[i].Conditions = append(imp.Status.Clusters[i].Conditions, c)
	}
	return imp
}

// If a name has two meanings, the older export wins, whether it is a pool or one cluster of an
// import.
func TestImportName_MeansWhatItMeantFirst(t *testing.T) {
	for _, c := range []struct {
		what  string
		ops   []store.Op
		name  string
		leads string
	}{
		{
			"chat-us had cluster east first", []store.Op{
				offerSince(1, "chat-us", "east", false), offerSince(2, "chat", "us-east", false),
			}, "chat-us-east", "import/default/chat-us/east",
		},
		{
			"chat had cluster us-east first", []store.Op{
				offerSince(2, "chat-us", "east", false), offerSince(1, "chat", "us-east", false),
			}, "chat-us-east", "import/default/chat/us-east",
		},
		{"both at once", []store.Op{offerSince(1, "chat-us", "east", false), offerSince(1, "chat", "us-east", false)},
			"chat-us-east", "import/default/chat-us/east"},
		{
			"a pool of that name was first", []store.Op{
				offerSince(1, "chat-east", "north", false), offerSince(2, "chat", "east", false),
			}, "chat-east", "import/default/chat-east/north",
		},
		{
			"a pool of that name, at once", []store.Op{
				offerSince(1, "chat-east", "north", false), offerSince(1, "chat", "east", false),
			}, "chat-east", "import/default/chat/east",
		},
		{"a user wrote the import of the cluster",
			[]store.Op{offerSince(1, "chat-us", "east", false),
				store.InferencePoolImports.Put(written("chat", "us-east"))}, "chat-us-east",
			"parent/default/chat/us-east"},
		{
			"Penstock made it",
			[]store.Op{offerSince(1, "chat-us", "east", false), offerSince(2, "chat", "us-east", false),
				store.InferencePoolImports.Put(madeByPenstock(written("chat")))}, "chat-us-east",
			"import/default/chat-us/east",
		},
		{"Penstock made it, and added the cluster later", []store.Op{offerSince(2e6, "chat-us", "east", false),
			store.InferencePoolImports.Put(imported(madeByPenstock(written("chat", "west", "us-east")), 1, 3))},
			"chat-us-east", "import/default/chat-us/east"},
		{"Penstock made it with the cluster", []store.Op{offerSince(2e6, "chat-us", "east", false),
			store.InferencePoolImports.Put(imported(madeByPenstock(written("chat", "us-east")), 1))}, "chat-us-east",
			"parent/default/chat/us-east"},
		{"Penstock made it, and the cluster is not imported", []store.Op{offerSince(2e6, "chat-us", "east", false),
			store.InferencePoolImports.Put(imported(madeByPenstock(written("chat", "us-east")), -1))}, "chat-us-east",
			"import/default/chat-us/east"},
		{"a user wrote the import, and a hub added the cluster later",
			[]store.Op{offerSince(2e6, "chat-us", "east", false),
				store.InferencePoolImports.Put(imported(written("chat", "us-east"), 3))}, "chat-us-east",
			"import/default/chat-us/east"},
		{
			"the older one drains",
			[]store.Op{offerSince(1, "chat", "us-east", true), offerSince(2, "chat-us", "east", false)}, "chat-us-east",
			"500: This route has no backend.",
		},
	} {
		w := newNamed(t)
		w.apply(append(c.ops, store.HTTPRoutes.Put(importRoute("r", c.name)))...)
		if got := w.leads("a.example.com"); got != c.leads {
			t.Errorf("%s: %s leads to %s, want %s", c.what, c.name, got, c.leads)
		}
	}
}

// If requests must not go to a cluster, they must not go to a pool of the same name instead.
func TestImportName_OfAClusterOutsideWithinLeadsToNoPoolOfThatName(t *testing.T) {
	w := newNamed(t)
	policy := &v1alpha1.PoolPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "within"}}
	policy.Spec.TargetRef = v1alpha1.PoolRef{Kind: "InferencePoolImport", Name: "chat"}
	policy.Spec.Selection = &v1alpha1.SelectionSpec{Within: &v1alpha1.WithinSpec{Clusters: []string{"west"}}}
	w.apply(offerSince(1, "chat", "east", false), offerSince(1, "chat", "west", false), store.PoolPolicies.Put(policy),
		store.HTTPRoutes.Put(importRoute("r", "chat-east")), offerSince(2, "chat-east", "north", false))
	if got := w.leads("a.example.com"); got != "500: This route has no backend." {
		t.Errorf(`chat-east leads to %q, want "500: This route has no backend."`, got)
	}
	if !w.finding("HTTPRoute", "r", "cluster east", "spec.selection.within") {
		t.Errorf("want a finding of the route with the reason, got %+v", w.reports)
	}
}

// If an import's name means something else, the import is reachable only by the names of its
// clusters.
func TestImportName_WithoutItsNameAnImportHasTheNamesOfItsClusters(t *testing.T) {
	w := newNamed(t)
	w.apply(offerSince(1, "chat", "east", false), offerSince(2, "chat-east", "north", false),
		store.HTTPRoutes.Put(importRoute("r", "chat-east-north")),
		store.BackendTLSPolicies.Put(tlsPolicy("tls", "chat-east")))
	if got := w.leads("a.example.com"); got != "import/default/chat-east/north" {
		t.Errorf(`chat-east-north leads to %s, want "import/default/chat-east/north"`, got)
	}
	e := w.tr.Explain(translator.Query{URL: &url.URL{Scheme: "http", Host: "a.example.com"}})
	if len(e.Backends) != 1 || e.Backends[0].TLS != "" {
		t.Errorf("import chat-east: got backends %+v, want no TLS: the policy is for cluster east of chat", e.Backends)
	}
}
