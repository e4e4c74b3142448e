package inference

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/gateway-api-inference-extension/apix/v1alpha1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/translator/services"
)

// Import translates an InferencePoolImport.
func Import(r store.Reader, key string) (*model.Import, bool) {
	imp, whole, policies, ok := baseImport(r, key)
	if !ok {
		return nil, false
	}
	if f, several := gatewayapi.Ambiguous(r, imp.Ref, "metadata.name", imp.Ref.Namespace, imp.Ref.Name); several {
		imp.Findings = append(imp.Findings, f)
	}
	imp.Ordered = priority(whole)
	together(r, imp, whole)
	governs := map[*v1alpha1.PoolPolicy][]model.ImportMember{}
	for i := range imp.Members {
		m, policy := &imp.Members[i], policies[i]
		if policy != nil {
			governs[policy] = append(governs[policy], *m)
		}
		spills := policy != nil && len(policy.Spec.Spill) > 0
		if spills && policy != whole && !imp.Cluster.IsZero() {
			imp.Findings = append(imp.Findings, infoOn(store.PoolPolicies.Ref(policy), "spec.spill",
				fmt.Sprintf("it is for requests that name cluster %s alone: requests for the whole import are sent to "+
					"another of its clusters", m.Name),
				"to have them spill once all clusters decline, write a PoolPolicy whose targetRef is the import"))
		}
		switch {
		case m.Pool != nil:
			addSpill(r, m.Pool, policy)
			imp.Findings = append(imp.Findings, m.Pool.Findings...)
		case m.Cluster.Kind != model.ImportKind && !m.Local && spills && (policy != whole || imp.Cluster.IsZero()):
			imp.Findings = append(imp.Findings, warningOn(store.PoolPolicies.Ref(policy), "spec.spill",
				fmt.Sprintf(
					"exporting cluster %s is reached through its gateway (ParentMode), where no picker is asked: "+
						"its requests do not spill", m.Name), ""))
		}
	}
	for _, policy := range append([]*v1alpha1.PoolPolicy{whole}, policies...) {
		imp.Findings = append(imp.Findings, ineffectiveOn(imp.Ref, governs[policy], policy, policy == whole)...)
		var fields []string
		if policy != nil && policy != whole && policy.Spec.Selection != nil {
			fields = append(fields, "spec.selection")
		}
		if policy != nil && policy != whole && len(policy.Spec.RetryOn) > 0 {
			fields = append(fields, "spec.retryOn")
		}
		if len(fields) > 0 {
			imp.Findings = append(imp.Findings,
				unused(policy, fields, "it is among the clusters of "+imp.Ref.String()+
					", and the policy is for one of them", "write it into a PoolPolicy whose targetRef is the import"))
		}
	}
	imp.Findings = unique(imp.Findings) // clusters with the same policy have equal findings
	return imp, true
}

func unique(findings []report.Finding) (out []report.Finding) {
	if len(findings) < 2 {
		return findings
	}
	seen := make(map[report.Finding]bool, len(findings))
	for _, f := range findings {
		if !seen[f] {
			seen[f] = true
			out = append(out, f)
		}
	}
	return out
}

func baseImport(r store.Reader, key string) (imp *model.Import, whole *v1alpha1.PoolPolicy,
	policies []*v1alpha1.PoolPolicy, ok bool) {
	obj, outside, ok := gatewayapi.ImportedWithin(r, key)
	if !ok {
		return nil, nil, nil, false
	}
	whole, ignored := importPolicy(r, obj.Namespace, obj.Name)
	imp = &model.Import{Ref: store.InferencePoolImports.Ref(obj),
		Findings: append(ignored, beyond(whole, obj, outside)...)}
	whole, found := withDocument(r, whole)
	imp.Findings = append(append(imp.Findings, found...), misnamed(r, whole, obj, outside)...)
	clusters := obj.Status.Clusters
	order := make([]int, len(clusters))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(clusters[a].Name, clusters[b].Name) })
	imp.Members, policies = make([]model.ImportMember, 0, len(clusters)), make([]*v1alpha1.PoolPolicy, 0, len(clusters))
	usable, place := 0, 0
	for n, i := range order {
		c := &clusters[i]
		if n == 0 || clusters[order[n-1]].Name != c.Name {
			place = i
		}
		imp.Credentials = imp.Credentials || asksWithSecret(c)
		policy, ignored := memberPolicy(r, imp.Ref, c.Name, whole)
		imp.Findings = append(imp.Findings, ignored...)
		m := importMember(r, imp, policy, c, fmt.Sprintf("status.clusters[%d]", place))
		if f, reason := withheld(r, imp.Ref, &obj.Status, c.Name); reason != "" && m.NotReady == "" {
			m.NotReady, m.Share = reason, 0
			imp.Findings = append(imp.Findings, f)
		}
		if m.Problem == "" && m.NotReady == "" {
			usable++
		}
		imp.Members, policies = append(imp.Members, m), append(policies, policy)
	}
	imp.Accepted = report.Condition{Type: "Accepted", Status: report.True, Reason: "Accepted"}
	imp.Ready = report.Condition{Type: "Ready", Status: report.True, Reason: "Ready",
		Message: fmt.Sprintf("%d of %d exporting clusters can be used", usable, len(clusters))}
	if usable == 0 {
		imp.Ready.Status, imp.Ready.Reason = report.False, "NoUsableCluster"
	}
	return imp, whole, policies, true
}

func beyond(policy *v1alpha1.PoolPolicy, obj *inferenceapi.InferencePoolImport, outside []string) []report.Finding {
	if len(outside) == 0 || len(obj.Status.Clusters) > 0 {
		return nil
	}
	slices.Sort(outside)
	return []report.Finding{
		errorOn(store.PoolPolicies.Ref(policy), fieldWithin,
			fmt.Sprintf("it leaves no cluster of InferencePoolImport %s/%s, which %s export: it takes no requests",
				obj.Namespace, obj.Name, strings.Join(outside, ", ")),
			"allow one of these clusters, or its region, or export the pool from one that is allowed"),
	}
}

const listedNames = 8

func misnamed(r store.Reader, policy *v1alpha1.PoolPolicy, obj *inferenceapi.InferencePoolImport,
	outside []string) (out []report.Finding) {
	if policy == nil || policy.Spec.Selection == nil {
		return nil
	}
	var known []string
	if m, ok := store.Memberships.Get(r, store.OwnMembership); ok && len(m.Names) > 0 {
		known = append([]string{m.Cluster}, m.Names...)
	}
	check := func(field string, names []string, absent bool) {
		for i, name := range names {
			exports := slices.Contains(outside, name) ||
				slices.ContainsFunc(obj.Status.Clusters,
					func(c inferenceapi.ImportedCluster) bool { return c.Name == name })
			f := report.Finding{Owner: store.PoolPolicies.Ref(policy), Field: fmt.Sprintf("%s[%d]", field, i)}
			switch {
			case exports:
				continue
			case known != nil && !slices.Contains(known, name):
				f.Severity, f.Problem = report.Warning,
					fmt.Sprintf("no cluster of the ClusterSet has the name %q", name)
				f.Fix = "write the name of one that it has (" +
					strings.Join(known[:min(len(known), listedNames)], ", ") + "), or add the cluster to it"
			case absent:
				f.Severity, f.Problem = report.Info,
					fmt.Sprintf("cluster %q does not export InferencePoolImport %s/%s now", name, obj.Namespace,
						obj.Name)
			default:
				continue
			}
			out = append(out, f)
		}
	}
	check("spec.selection.order", policy.Spec.Selection.Order, true)
	if w := policy.Spec.Selection.Within; w != nil {
		check(fieldWithin+".clusters", w.Clusters, false)
	}
	return out
}

const fieldWithin = "spec.selection.within"

func memberPolicy(r store.Reader, imp report.Ref, member string, whole *v1alpha1.PoolPolicy) (*v1alpha1.PoolPolicy,
	[]report.Finding) {
	// IsImportAlias reads all clusters of the import, so it is called only if there is a policy.
	if own, ignored := policyFor(r, "InferencePoolImport", imp.Namespace,
		gatewayapi.AliasName(imp.Name, member)); own != nil &&
		gatewayapi.IsImportAlias(r, imp.Namespace, imp.Name, member) {
		return own, ignored
	}
	return whole, nil
}

// notReady returns the reason of Ready=False, or "". Ready=Unknown does not count, because an
// exporter that stops reporting does not retract its export.
func notReady(conditions []metav1.Condition) string {
	if ready := meta.FindStatusCondition(conditions, "Ready"); ready != nil && ready.Status == metav1.ConditionFalse {
		return cmp.Or(ready.Reason, "NotReady")
	}
	return ""
}

// withheld returns why a cluster takes no new requests although its own conditions allow them. The
// reason is from Accepted=False or Ready=False of the whole import, or of the controller that lists
// the cluster. Conditions of Penstock's controllers do not count: otherwise one exporting cluster
// could disable the others.
func withheld(r store.Reader, imp report.Ref, status *inferenceapi.InferencePoolImportStatus,
	cluster string) (f report.Finding, reason string) {
	if _, offered := store.Offers.Get(r, objectid.Join(imp.Namespace, store.OfferName(imp.Name, cluster))); offered {
		return f, ""
	}
	f = report.Finding{Severity: report.Info, Owner: imp, Field: "status.conditions"}
	ours := func(c upstream.ImportController) bool { return v1alpha1.OfPenstock(string(c.Name)) }
	var no *metav1.Condition
	if !slices.ContainsFunc(status.Controllers, ours) {
		no = declined(status.Conditions)
	}
	for i := 0; no == nil && i < len(status.Controllers); i++ {
		c := &status.Controllers[i]
		if !ours(*c) && slices.ContainsFunc(c.ExportingClusters,
			func(e upstream.ExportingCluster) bool { return string(e.Name) == cluster }) {
			no, f.Field = declined(c.Conditions), fmt.Sprintf("status.controllers[%d].conditions", i)
		}
	}
	if no == nil {
		return f, ""
	}
	reason = cmp.Or(no.Reason, "Not"+no.Type)
	f.Problem = fmt.Sprintf(
		"cluster %s takes no new requests: the controller of the import reports %s=False, reason %s", cluster, no.Type,
		reason)
	return f, reason
}

func declined(conditions []metav1.Condition) *metav1.Condition {
	for i := range conditions {
		if c := &conditions[i]; c.Status == metav1.ConditionFalse && (c.Type == "Accepted" || c.Type == "Ready") {
			return c
		}
	}
	return nil
}

type outside struct{ field, problem string }

func notAllowed(owner report.Ref, cluster string, list []outside) (out []report.Finding) {
	for _, o := range list {
		out = append(out, errorOn(owner, o.field, "cluster "+cluster+": "+o.problem, fixOutside(o.problem)))
	}
	return few(out)
}

// few limits the number of findings, which an exporting cluster controls. The result has the first
// findings, and one that counts the rest.
func few(list []report.Finding) []report.Finding {
	more := len(list) - mostErrors
	if more <= 0 {
		return list
	}
	last := list[mostErrors]
	if i := strings.LastIndexByte(last.Field, '['); i >= 0 {
		last.Field = last.Field[:i]
	}
	last.Problem, last.Fix = fmt.Sprintf("%d more elements have such a problem", more),
		"see the other findings of this object"
	return append(list[:mostErrors:mostErrors], last)
}

// dialable returns the allowed addresses of services, and why other addresses are not allowed. It
// does not mark host names as used (useNames does).
func dialable(r store.Reader, allowed ranges, names hostNames, list []inferenceapi.ServiceImport, field string,
	cleartext func(appProtocol string) bool) (out []model.RemoteAddress, no []outside) {
	for i, s := range list {
		if len(s.Ports) == 0 {
			continue
		}
		port := s.Ports[0]
		for j, a := range s.Addresses {
			if names.leavesOut(a) {
				continue
			}
			host := services.Mention(r, a)
			for _, ip := range host.Addresses {
				if why := allowed.outside(ip); why != "" {
					no = append(no,
						outside{fmt.Sprintf("%s[%d].addresses[%d]", field, i, j),
							fmt.Sprintf("address %s %s", ip, why)})
					continue
				}
				out = append(out, model.RemoteAddress{
					Addr: netip.AddrPortFrom(ip, uint16(port.Number)), Cleartext: cleartext(port.AppProtocol),
				})
			}
			if host.Outside != "" {
				no = append(no, outside{fmt.Sprintf("%s[%d].addresses[%d]", field, i, j), host.Outside})
			}
		}
	}
	return distinct(out), no
}

func distinct(list []model.RemoteAddress) []model.RemoteAddress {
	slices.SortFunc(list, func(a, b model.RemoteAddress) int {
		if c := a.Addr.Compare(b.Addr); c != 0 || a.Cleartext == b.Cleartext {
			return c
		}
		if a.Cleartext {
			return 1
		}
		return -1
	})
	return slices.CompactFunc(list, func(a, b model.RemoteAddress) bool { return a.Addr == b.Addr })
}

func dialablePickers(r store.Reader, allowed ranges, names hostNames, list []inferenceapi.ServiceImport,
	field string) ([]model.RemoteAddress, []outside) {
	return dialable(r, allowed, names, list, field, func(appProtocol string) bool { return Cleartext(&appProtocol) })
}

// Dialable returns the allowed addresses of an exporting cluster's picker.
func Dialable(r store.Reader, imp *inferenceapi.InferencePoolImport,
	c *inferenceapi.ImportedCluster) []model.RemoteAddress {
	if c.EndpointPicker == nil {
		return nil
	}
	whole, _ := importPolicy(r, imp.Namespace, imp.Name)
	policy, _ := memberPolicy(r, store.InferencePoolImports.Ref(imp), c.Name, whole)
	allowed, _ := allowedFor(r, imp.Namespace, imp.Name, c.Name)
	allowed, _ = allowed.narrowed(policy, fieldAddresses)
	out, _ := dialablePickers(r, allowed, namesOf(c), c.EndpointPicker.Service, "")
	return out
}

func importNamed(r store.Reader, namespace, name string, get func(key string) (*model.Import, bool)) (*model.Import,
	bool) {
	key, cluster, ok := gatewayapi.ImportNamed(r, namespace, name)
	if !ok {
		return nil, false
	}
	imp, ok := get(key)
	if !ok || cluster == "" {
		return imp, ok
	}
	return pinnedTo(imp, cluster)
}

func pinnedTo(imp *model.Import, member string) (*model.Import, bool) {
	i := slices.IndexFunc(imp.Members, func(m model.ImportMember) bool { return m.Name == member })
	if i < 0 {
		return nil, false
	}
	one := *imp
	one.Members = []model.ImportMember{imp.Members[i]}
	one.Cluster, one.Spill, one.SpillImports = model.ClusterID{}, nil, nil
	if m := &one.Members[0]; m.NotReady == "" {
		m.Share = cmp.Or(m.Share, 1)
	}
	return &one, true
}
