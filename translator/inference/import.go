package inference

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/translator/services"
)

// Import decides everything about the InferencePoolImport with a key; false if there is none.
func Import(r store.Reader, key string) (*model.Import, bool) {
	imp, policies, ok := baseImport(r, key)
	if !ok {
		return nil, false
	}
	for i := range imp.Members {
		m, policy := &imp.Members[i], policies[i]
		switch {
		case m.Pool != nil:
			addSpill(r, m.Pool, policy)
			imp.Findings = append(imp.Findings, m.Pool.Findings...)
		case m.Cluster.Kind == model.ParentKind && policy != nil && len(policy.Spec.Spill) > 0:
			imp.Findings = append(imp.Findings, report.Finding{
				Severity: report.Warning, Owner: store.PoolPolicies.Ref(policy), Field: "spec.spill",
				Problem: fmt.Sprintf("exporting cluster %s is reached through its gateway (ParentMode), where no picker is asked: its requests do not spill", m.Name),
			})
		}
	}
	imp.Findings = unique(imp.Findings) // those about a policy are the same for each of its clusters
	return imp, true
}

func unique(findings []report.Finding) (out []report.Finding) {
	seen := make(map[report.Finding]bool, len(findings))
	for _, f := range findings {
		if !seen[f] {
			seen[f] = true
			out = append(out, f)
		}
	}
	return out
}

// baseImport is Import without the spill targets, as basePool is to Pool. policies are those of the members.
func baseImport(r store.Reader, key string) (imp *model.Import, policies []*v1alpha1.PoolPolicy, ok bool) {
	obj, ok := store.InferencePoolImports.Get(r, key)
	if !ok {
		return nil, nil, false
	}
	whole, ignored := policyFor(r, "InferencePoolImport", obj.Namespace, obj.Name)
	imp = &model.Import{Ref: store.InferencePoolImports.Ref(obj), Findings: ignored}
	clusters := slices.SortedStableFunc(slices.Values(obj.Status.Clusters), func(a, b inferenceapi.ImportedCluster) int { return strings.Compare(a.Name, b.Name) })
	usable := 0
	for _, c := range clusters {
		i := slices.IndexFunc(obj.Status.Clusters, func(o inferenceapi.ImportedCluster) bool { return o.Name == c.Name })
		policy, ignored := memberPolicy(r, imp.Ref, c.Name, whole)
		imp.Findings = append(imp.Findings, ignored...)
		m := importMember(r, imp, policy, c, fmt.Sprintf("status.clusters[%d]", i))
		if m.Problem == "" && m.NotReady == "" {
			usable++
		}
		imp.Members, policies = append(imp.Members, m), append(policies, policy)
	}
	imp.Accepted = report.Condition{Type: "Accepted", Status: report.True, Reason: "Accepted"}
	imp.Ready = report.Condition{Type: "Ready", Status: report.True, Reason: "Ready", Message: fmt.Sprintf("%d of %d exporting clusters can be used", usable, len(clusters))}
	if usable == 0 {
		imp.Ready.Status, imp.Ready.Reason = report.False, "NoUsableCluster"
	}
	return imp, policies, true
}

// memberPolicy is the policy of one exporting cluster: the one for NAME-CLUSTER, else that of the whole import.
func memberPolicy(r store.Reader, imp report.Ref, member string, whole *v1alpha1.PoolPolicy) (*v1alpha1.PoolPolicy, []report.Finding) {
	if alias, ok := gatewayapi.ImportAlias(r, imp.Namespace, imp.Name, member); ok {
		if own, ignored := policyFor(r, "InferencePoolImport", imp.Namespace, alias); own != nil {
			return own, ignored
		}
	}
	return whole, nil
}

// notReady is the reason of a cluster's condition Ready, if that is False. Unknown is not False: an exporter that falls silent
// withdraws nothing.
func notReady(c inferenceapi.ImportedCluster) string {
	if ready := meta.FindStatusCondition(c.Conditions, "Ready"); ready != nil && ready.Status == metav1.ConditionFalse {
		return cmp.Or(ready.Reason, "NotReady")
	}
	return ""
}

func importMember(r store.Reader, imp *model.Import, policy *v1alpha1.PoolPolicy, c inferenceapi.ImportedCluster, field string) model.ImportMember {
	m := model.ImportMember{
		Name:    c.Name,
		Cluster: model.ImportCluster(imp.Ref.Namespace, imp.Ref.Name, c.Name),
		Share:   uint32(or(c.Weight, 1)),
	}
	if m.NotReady = notReady(c); m.NotReady != "" {
		m.Share = 0
		imp.Findings = append(imp.Findings, report.Finding{
			Severity: report.Info, Owner: imp.Ref, Field: field + ".conditions",
			Problem: fmt.Sprintf("cluster %s takes no new requests: its controller reports Ready=False, reason %s", c.Name, m.NotReady),
		})
	}
	problem := func(sub, problem, fix string) {
		m.Problem = problem
		imp.Findings = append(imp.Findings, report.Finding{Severity: report.Error, Owner: imp.Ref, Field: field + sub, Problem: "cluster " + c.Name + ": " + problem, Fix: fix})
	}
	if c.RoutingMode == inferenceapi.ParentMode {
		m.Cluster = model.ParentCluster(imp.Ref.Namespace, imp.Ref.Name, c.Name)
		for i, parent := range c.Parents {
			at := fmt.Sprintf("%s.parents[%d].service", field, i)
			addrs, _, outside := dialable(r, parent.Service, at)
			m.Parents = append(m.Parents, addrs...)
			imp.Findings = append(imp.Findings, notAllowed(imp.Ref, c.Name, outside)...)
		}
		slices.SortFunc(m.Parents, netip.AddrPort.Compare)
		m.Parents = slices.Compact(m.Parents)
		if len(m.Parents) == 0 {
			problem(".parents", "no parent gateway has a known address", "give parents[].service addresses (IP addresses, or host names that resolve) and ports")
		}
		return m
	}
	if c.EndpointPicker == nil {
		problem(".endpointPicker", "EndpointMode needs the remote picker", "add endpointPicker with its service, or use ParentMode")
		return m
	}
	pickers, clear, outside := dialable(r, c.EndpointPicker.Service, field+".endpointPicker.service")
	imp.Findings = append(imp.Findings, notAllowed(imp.Ref, c.Name, outside)...)
	if len(pickers) == 0 {
		problem(".endpointPicker.service", "no address of the remote picker is known", "give service addresses (IP addresses, or host names that resolve) and ports")
		return m
	}
	m.Pool = remotePool(imp, policy, c, m.Cluster)
	if len(c.Endpoints) > 0 {
		declaredEndpoints(r, m.Pool, imp, c, field)
	} else {
		relayed(m.Pool, imp, policy, c, pickers, clear, field)
	}
	if !clear {
		m.Pool.Findings = append(m.Pool.Findings, unverified(imp.Ref, field+".endpointPicker.service", "cluster "+c.Name+": ", "set appProtocol: kubernetes.io/h2c on the service's port"))
	}
	nameLast(m.Pool, policy)
	return m
}

func remotePool(imp *model.Import, policy *v1alpha1.PoolPolicy, c inferenceapi.ImportedCluster, cluster model.ClusterID) *model.Pool {
	p := &model.Pool{
		Name:     model.PoolID{Namespace: imp.Ref.Namespace, Name: imp.Ref.Name, Member: c.Name},
		Ref:      imp.Ref,
		Cluster:  cluster,
		Protocol: protocolOf(c.AppProtocol),
		FailOpen: c.FailureMode == "FailOpen",
		Settings: settings(policy),
		Owners:   []report.Ref{imp.Ref},
		Resolved: report.Condition{Type: "ResolvedRefs", Status: report.True, Reason: "ResolvedRefs"},
	}
	if policy != nil {
		p.Owners = append(p.Owners, store.PoolPolicies.Ref(policy))
	}
	for _, port := range c.TargetPorts {
		p.Ports = append(p.Ports, uint16(port.Number))
	}
	if len(p.Ports) == 0 {
		p.Ports = []uint16{uint16(c.TargetPortNumber)}
	}
	return p
}

// declaredEndpoints: the exporter declares its pods, so Envoy asks the remote picker itself.
func declaredEndpoints(r store.Reader, p *model.Pool, imp *model.Import, c inferenceapi.ImportedCluster, field string) {
	p.External = true
	policy := addresses.Of(r)
	askExternal(r, p, model.ImportPickerCluster(imp.Ref.Namespace, imp.Ref.Name, c.Name), "cluster "+c.Name+": ", field+".endpointPicker", field+".failureMode")
	for i, e := range c.Endpoints {
		addr, err := netip.ParseAddr(e.Address)
		if err != nil {
			p.Findings = append(p.Findings, report.Finding{Severity: report.Error, Owner: imp.Ref, Field: fmt.Sprintf("%s.endpoints[%d].address", field, i), Problem: fmt.Sprintf("%q is not an IP address", e.Address), Fix: "write an IPv4 or IPv6 address"})
			continue
		}
		if e.Draining {
			continue
		}
		if why := policy.Written(addr); why != "" {
			p.Findings = append(p.Findings, notAllowed(imp.Ref, c.Name, []outside{{fmt.Sprintf("%s.endpoints[%d].address", field, i), fmt.Sprintf("address %s %s", e.Address, why)}})...)
			continue
		}
		for _, port := range p.Ports {
			p.Remote = append(p.Remote, netip.AddrPortFrom(addr.Unmap(), port))
		}
	}
	slices.SortFunc(p.Remote, netip.AddrPort.Compare)
	p.Remote = slices.Compact(p.Remote)
}

// relayed: the pods are not known here. Our picker asks the remote one, checks what it names, and has it added to the
// cluster before it answers.
func relayed(p *model.Pool, imp *model.Import, policy *v1alpha1.PoolPolicy, c inferenceapi.ImportedCluster, pickers []netip.AddrPort, clear bool, field string) {
	exporter, bad := ranges(c.PodCIDRs)
	for _, cidr := range bad {
		p.Findings = append(p.Findings, report.Finding{Severity: report.Error, Owner: imp.Ref, Field: field + ".podCIDRs", Problem: fmt.Sprintf("%q is not an address range", cidr), Fix: "write it as 10.0.0.0/8"})
	}
	var importer []netip.Prefix
	if policy != nil {
		importer, bad = ranges(policy.Spec.Remote.PodCIDRs)
		for _, cidr := range bad {
			p.Findings = append(p.Findings, report.Finding{Severity: report.Error, Owner: store.PoolPolicies.Ref(policy), Field: "spec.remote.podCIDRs", Problem: fmt.Sprintf("%q is not an address range", cidr), Fix: "write it as 10.0.0.0/8"})
		}
	}
	p.Picker = model.PickerCall{Cluster: model.OurPicker, Pool: p.Name, Body: model.BodyBuffered, Served: true}
	p.Relay = &model.Relay{Pickers: pickers, TLS: !clear, Import: imp.Ref.Key(), Member: c.Name, Field: field}
	for _, list := range [][]netip.Prefix{importer, exporter} {
		if len(list) > 0 {
			p.Relay.Within = append(p.Relay.Within, list)
		}
	}
	if len(p.Relay.Within) == 0 {
		p.Findings = append(p.Findings, report.Finding{
			Severity: report.Warning, Owner: imp.Ref, Field: field + ".podCIDRs",
			Problem: fmt.Sprintf("cluster %s names neither its pods nor their range: its picker may name any allowed address but loopback ones", c.Name),
			Fix:     "give podCIDRs here, or remote.podCIDRs in a PoolPolicy for this import",
		})
	}
}

// ranges parses CIDRs, sorted; bad are those that are none.
func ranges(cidrs []string) (list []netip.Prefix, bad []string) {
	for _, cidr := range cidrs {
		p, err := addresses.ParseRange(cidr)
		if err != nil {
			bad = append(bad, cidr)
			continue
		}
		list = append(list, p)
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return slices.Compact(list), bad
}

// outside is a field with an address that may not become an endpoint.
type outside struct{ field, problem string }

// notAllowed are the findings about such fields of an exporting cluster.
func notAllowed(owner report.Ref, cluster string, list []outside) (out []report.Finding) {
	for _, o := range list {
		out = append(out, report.Finding{Severity: report.Error, Owner: owner, Field: o.field, Problem: "cluster " + cluster + ": " + o.problem, Fix: addresses.Fix})
	}
	return out
}

// dialable lists the addresses of a remote Service at its first port, host names looked up; clear reports whether the port
// is marked as cleartext. field is where the list is. A name is resolved once a route uses the import (useNames).
func dialable(r store.Reader, list []inferenceapi.ServiceImport, field string) (addrs []netip.AddrPort, clear bool, no []outside) {
	for i, s := range list {
		if len(s.Ports) == 0 {
			continue
		}
		port := s.Ports[0]
		clear = clear || Cleartext(&port.AppProtocol)
		for j, a := range s.Addresses {
			host := services.Mention(r, a)
			for _, ip := range host.Addresses {
				addrs = append(addrs, netip.AddrPortFrom(ip, uint16(port.Number)))
			}
			if host.Outside != "" {
				no = append(no, outside{fmt.Sprintf("%s[%d].addresses[%d]", field, i, j), host.Outside})
			}
		}
	}
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	return slices.Compact(addrs), clear, no
}

// Dialable lists the addresses of a remote Service.
func Dialable(r store.Reader, list []inferenceapi.ServiceImport) []netip.AddrPort {
	addrs, _, _ := dialable(r, list, "")
	return addrs
}

// useNames makes the host names of an import used.
func useNames(r store.Reader, key string) {
	imp, ok := store.InferencePoolImports.Get(r, key)
	if !ok {
		return
	}
	use := func(list []inferenceapi.ServiceImport) {
		for _, s := range list {
			for _, a := range s.Addresses {
				services.Lookup(r, a)
			}
		}
	}
	for _, c := range imp.Status.Clusters {
		if c.EndpointPicker != nil {
			use(c.EndpointPicker.Service)
		}
		for _, p := range c.Parents {
			use(p.Service)
		}
	}
}

// importNamed finds the import that a name means (gatewayapi.ImportNamed), with get.
func importNamed(r store.Reader, namespace, name string, get func(key string) (*model.Import, bool)) (*model.Import, bool) {
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

// pinnedTo is an import with one of its exporting clusters alone, whose weight among the others then means nothing; false if
// it has no such cluster.
func pinnedTo(imp *model.Import, member string) (*model.Import, bool) {
	i := slices.IndexFunc(imp.Members, func(m model.ImportMember) bool { return m.Name == member })
	if i < 0 {
		return nil, false
	}
	one := *imp
	one.Members = []model.ImportMember{imp.Members[i]}
	if m := &one.Members[0]; m.NotReady == "" {
		m.Share = cmp.Or(m.Share, 1)
	}
	return &one, true
}
