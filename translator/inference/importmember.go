package inference

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
)

const (
	reasonNotSupported = "NotSupported"
	reasonNotAllowed   = "NotAllowed"
)

type exporter struct {
	*inferenceapi.ImportedCluster
	r             store.Reader
	imp           *model.Import
	policy        *v1alpha1.PoolPolicy
	field         string
	fixes         exporterFixes
	names         hostNames
	allowed, pods ranges
	m             model.ImportMember
}

func importMember(
	r store.Reader, imp *model.Import, policy *v1alpha1.PoolPolicy, c *inferenceapi.ImportedCluster, field string,
) model.ImportMember {
	e := exporter{ImportedCluster: c, r: r, imp: imp, policy: policy, field: field, m: model.ImportMember{
		Name: c.Name, Region: c.Region, Zone: c.Zone, Protocol: model.HTTP1,
		Cluster: model.ImportCluster(imp.Ref.Namespace, imp.Ref.Name, c.Name),
		Share:   uint32(max(0, or(c.Weight, 1))),
	}}
	if e.m.NotReady = notReady(c.Conditions); e.m.NotReady != "" {
		e.m.Share = 0
		imp.Findings = append(imp.Findings, infoOn(imp.Ref, field+".conditions",
			fmt.Sprintf("cluster %s takes no new requests: its controller reports Ready=False, reason %s", c.Name,
				e.m.NotReady), ""))
	}
	if strings.ContainsFunc(c.Name, unicode.IsControl) { // Envoy sends the name in a header
		e.unsupported(".name", "the name has control characters", "write the name of the exporting cluster")
		return e.m
	}
	offer, member := store.Offers.Get(r, objectid.Join(imp.Ref.Namespace, store.OfferName(imp.Ref.Name, c.Name)))
	if c.Local && !member || member && offer.Local {
		e.m.Cluster, e.m.Local = model.PoolCluster(imp.Ref.Namespace, imp.Ref.Name), true
		if _, ok := store.InferencePools.Get(r, imp.Ref.Key()); !ok {
			e.unsupported("", "there is no InferencePool "+imp.Ref.Key()+" here", "")
		}
		return e.m
	}
	e.fixes, e.names = exporterFixes{member, c.Name}, namesOf(c)
	e.allowed, e.pods = allowedFor(r, imp.Ref.Namespace, imp.Ref.Name, c.Name)
	var bad, badPods []report.Finding
	e.allowed, bad = e.allowed.narrowed(policy, fieldAddresses)
	e.pods, badPods = e.pods.narrowed(policy, fieldPodCIDRs)
	imp.Findings = append(append(append(imp.Findings, bad...), badPods...), e.names.findings(imp, c.Name, field)...)
	switch {
	case c.RoutingMode != inferenceapi.ParentMode:
		e.throughPicker()
	case e.throughPeers():
		e.m.Protocol = protocolOf(c.AppProtocol)
	default:
		e.throughGateways()
	}
	return e.m
}

func (e *exporter) report(severity report.Severity, sub, problem, fix string) {
	e.imp.Findings = append(e.imp.Findings, report.Finding{
		Severity: severity, Owner: e.imp.Ref, Field: e.field + sub, Problem: "cluster " + e.Name + ": " + problem,
		Fix: fix,
	})
}

func (e *exporter) unsupported(sub, problem, fix string) {
	e.m.Problem, e.m.Reason = problem, reasonNotSupported
	e.report(report.Error, sub, problem, fix)
}

func (e *exporter) reportDenied(denied []outside) {
	e.imp.Findings = append(e.imp.Findings, notAllowed(e.imp.Ref, e.Name, denied)...)
}

func (e *exporter) unaddressed(denied []outside, sub, unknown, fix string) {
	if len(denied) > 0 {
		e.m.Reason, e.m.Problem = reasonNotAllowed, denied[0].problem
		return
	}
	e.m.Reason, e.m.Problem = "", unknown
	e.report(report.Error, sub, unknown, fix)
}

func (e *exporter) expose(
	id model.ClusterID, at []model.RemoteAddress, tls *gatewayapi.BackendTLS, who, sub string,
) {
	exposure := model.Exposure{Cluster: id, Who: who, Field: e.field + sub, Policy: tls != nil, Member: e.fixes.member}
	for _, a := range at {
		exposure.Cleartext, exposure.TLS = exposure.Cleartext || a.Cleartext, exposure.TLS || !a.Cleartext
	}
	e.imp.Exposed = append(e.imp.Exposed, exposure)
}

// throughPeers uses only the cluster's peer listeners, if the ClusterSet has the cluster's
// certificates. If it returns false, the ordinary gateways decide.
func (e *exporter) throughPeers() (handled bool) {
	isPeer := func(p inferenceapi.ParentImport) bool { return p.Peer }
	if !slices.ContainsFunc(e.Parents, isPeer) {
		return false
	}
	if !trusted(e.r, e.Name) {
		if slices.ContainsFunc(e.Parents, func(p inferenceapi.ParentImport) bool { return !p.Peer }) {
			return false
		}
		e.untrusted(".parents", "its gateways take requests of members of its cluster set alone, and the ClusterSet "+
			"here has no certificates of "+e.Name)
		return true
	}
	e.m.Cluster, e.m.MaxGateways = model.PeerCluster(e.imp.Ref.Namespace, e.imp.Ref.Name, e.Name), 0
	e.m.Peer = model.PeerAuthority(e.imp.Ref.Namespace, e.imp.Ref.Name, e.Name)
	var denied []outside
	for i, parent := range e.Parents {
		if !parent.Peer || notReady(parent.Conditions) != "" {
			continue
		}
		addrs, outside := dialable(e.r, e.allowed, e.names, parent.Service,
			fmt.Sprintf("%s.parents[%d].service", e.field, i), func(string) bool { return false })
		e.m.Parents, denied = append(e.m.Parents, addrs...), append(denied, outside...)
	}
	e.reportDenied(denied)
	if e.m.Parents = distinct(e.m.Parents); len(e.m.Parents) == 0 {
		e.unaddressed(denied, ".parents", "no peer listener of its gateways has a known address",
			"have spec.peerListener.address of its ClusterSet name an address that is reached from here, and allow "+
				"it (--allowed-cidrs, allow.addresses of the member)")
	}
	return true
}

// untrusted marks the cluster as unusable. A cluster that is not ready gets no finding: it may have
// left the set, and its export drains.
func (e *exporter) untrusted(sub, problem string) {
	if e.m.NotReady != "" {
		e.m.Problem, e.m.Reason = problem, reasonNotSupported
		return
	}
	e.unsupported(sub, problem,
		"add it to the ClusterSet here (penstock clusters join), or have the pool exported for clusters that are "+
			"no members")
}

func (e *exporter) throughGateways() {
	e.m.Cluster = model.ParentCluster(e.imp.Ref.Namespace, e.imp.Ref.Name, e.Name)
	e.m.MaxGateways = defaultMaxGateways
	if e.policy != nil && e.policy.Spec.Remote.MaxGateways != nil {
		e.m.MaxGateways = uint32(max(1, *e.policy.Spec.Remote.MaxGateways))
	}
	waiting, cleartext := "", cleartextAllowed(e.r, e.m.Cluster)
	var denied []outside
	var protocols []string
	for i, parent := range e.Parents {
		if parent.Peer {
			continue
		}
		at := fmt.Sprintf(".parents[%d]", i)
		if why := unusableHostname(&e.m, parent.Hostname, len(e.m.Parents) > 0); why != "" {
			e.report(report.Error, at+".hostname",
				fmt.Sprintf("gateway %.64s/%.64s is not used: %s", parent.Namespace, parent.Name, why),
				"write the host name that its route has, such as api.example.com, the same at each parent of the "+
					"cluster")
			continue
		}
		if why := notReady(parent.Conditions); why != "" {
			waiting = why
			e.report(report.Info, at+".conditions",
				fmt.Sprintf("gateway %.64s/%.64s takes no new requests: its condition Ready is False, reason %s",
					parent.Namespace, parent.Name, why), "")
			continue
		}
		at = e.field + at + ".service"
		addrs, no := dialable(e.r, e.allowed, e.names, parent.Service, at, func(appProtocol string) bool {
			protocols = append(protocols, appProtocol)
			return appProtocol != "https"
		})
		if !cleartext {
			var without []outside
			addrs, without = encrypted(addrs, at, e.Name)
			no = append(no, without...)
		}
		e.m.Parents, denied = append(e.m.Parents, addrs...), append(denied, no...)
	}
	e.reportDenied(denied)
	e.m.Parents, e.m.Protocol = distinct(e.m.Parents), e.gatewaysProtocol(protocols)
	switch {
	case len(e.m.Parents) > 0:
	case waiting != "":
		e.m.NotReady, e.m.Share = cmp.Or(e.m.NotReady, waiting), 0
	default:
		e.unaddressed(denied, ".parents", "no parent gateway has a known address", e.fixes.gatewayAddresses())
	}
	e.expose(e.m.Cluster, e.m.Parents, gatewayapi.BackendPolicy(e.r, e.m.Cluster), "its gateways", ".parents")
}

func (e *exporter) gatewaysProtocol(appProtocols []string) model.Protocol {
	h2c := func(p string) bool { return protocolOf(p) == model.H2C }
	other := func(p string) bool { return !h2c(p) }
	switch {
	case !slices.ContainsFunc(appProtocols, h2c):
		return model.HTTP1
	case !slices.ContainsFunc(appProtocols, other):
		return model.H2C
	}
	e.report(report.Warning, ".parents",
		"some of its gateways have appProtocol kubernetes.io/h2c and others have not: all get HTTP/1.1, and no gRPC",
		"write the same appProtocol for all gateways of the cluster")
	return model.HTTP1
}

func (e *exporter) throughPicker() {
	if e.EndpointPicker == nil {
		e.unsupported(".endpointPicker", "EndpointMode needs the remote picker",
			"add endpointPicker with its service, or use ParentMode")
		return
	}
	const service = ".endpointPicker.service"
	pickers, outside := dialablePickers(e.r, e.allowed, e.names, e.EndpointPicker.Service, e.field+service)
	e.reportDenied(outside)
	if len(pickers) == 0 {
		e.unaddressed(outside, service, "no address of the remote picker is known", e.fixes.pickerAddresses())
		return
	}
	at := model.ImportPickerCluster(e.imp.Ref.Namespace, e.imp.Ref.Name, e.Name)
	if e.EndpointPicker.Peer && !trusted(e.r, e.Name) {
		problem := "the ClusterSet here has no certificates of " + e.Name
		if e.m.NotReady == "" {
			problem = "its picker serves members of its cluster set alone, and " + problem
		}
		e.untrusted(".endpointPicker", problem)
		return
	}
	tls := gatewayapi.BackendPolicy(e.r, at)
	if !tls.Trusts() {
		e.unsupported(".endpointPicker", fmt.Sprintf("%s for its picker has no valid CA certificate", tls.Policy),
			"correct the policy")
		return
	}
	p := e.remotePool()
	e.m.Pool = p
	if name := e.EndpointPicker.Pool; name != "" {
		if id, ok := objectid.ParseTarget(name); !ok || id.Imported() ||
			strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			e.unsupported(".endpointPicker.pool", fmt.Sprintf("%.100q is not the name of a pool", name),
				"write NAMESPACE/NAME, or remove it")
			return
		}
		p.Picker.RemotePool = name
	}
	if tls != nil {
		p.Owners = append(p.Owners, tls.Policy)
	}
	var bad []report.Finding
	e.pods.exporter, bad = checkedRanges(e.imp.Ref, e.field+".podCIDRs", e.PodCIDRs)
	p.Findings = append(p.Findings, bad...)
	var denied string
	if len(e.Endpoints) > 0 {
		askExternal(e.r, p, at, "cluster "+e.Name+": ", e.field+".endpointPicker", e.field+".failureMode")
		p.Picker.Cluster = configured(importPicker(p.Picker.Cluster, e.imp.Ref, e.ImportedCluster, pickers, tls))
		denied = e.declaredEndpoints(p)
	} else {
		denied = e.relayed(p, pickers)
	}
	if denied != "" {
		e.m.Problem, e.m.Reason = denied, reasonNotAllowed
	}
	if !e.EndpointPicker.Peer {
		e.expose(at, pickers, tls, "its picker", service)
	}
	e.expose(e.m.Cluster, []model.RemoteAddress{{Cleartext: true}}, gatewayapi.BackendPolicy(e.r, e.m.Cluster),
		"its model servers", "")
	nameLast(p, e.policy)
}

func (e *exporter) remotePool() *model.Pool {
	p := &model.Pool{
		Name: objectid.Target{Pool: objectid.Pool{Namespace: e.imp.Ref.Namespace, Name: e.imp.Ref.Name},
			Member: e.Name},
		Ref:      e.imp.Ref,
		Cluster:  e.m.Cluster,
		Protocol: protocolOf(e.AppProtocol),
		FailOpen: e.FailureMode == failOpen,
		Settings: settings(e.policy),
		Picker:   model.PickerCall{Names: pickerNames(e.policy)},
		Owners:   []report.Ref{e.imp.Ref},
		Resolved: report.Condition{Type: "ResolvedRefs", Status: report.True, Reason: "ResolvedRefs"},
	}
	if e.policy != nil {
		p.Owners = append(p.Owners, store.PoolPolicies.Ref(e.policy))
	}
	for i, port := range e.TargetPorts {
		p.Ports = append(p.Ports, uint16(port.Number))
		if port.AppProtocol != "" && port.AppProtocol != cmp.Or(e.AppProtocol, "http") {
			p.Findings = append(p.Findings,
				warningOn(e.imp.Ref, fmt.Sprintf("%s.targetPorts[%d].appProtocol", e.field, i),
					fmt.Sprintf("cluster %s: it has no effect", e.Name), "write appProtocol of the cluster"))
		}
	}
	if len(p.Ports) == 0 {
		p.Ports = []uint16{uint16(e.TargetPortNumber)}
	}
	return p
}

// declaredEndpoints makes Envoy call the remote picker directly, because the exporter declares its
// pods. If no pod is allowed, denied is the reason.
func (e *exporter) declaredEndpoints(p *model.Pool) (denied string) {
	p.External, p.Remote = true, make([]netip.AddrPort, 0, len(e.Endpoints))
	policy := addresses.Of(e.r)
	var found []report.Finding
	for i, endpoint := range e.Endpoints {
		field := func() string { return fmt.Sprintf("%s.endpoints[%d].address", e.field, i) }
		addr, err := netip.ParseAddr(endpoint.Address)
		if err != nil {
			found = append(found, errorOn(e.imp.Ref, field(),
				fmt.Sprintf("%.64q is not an IP address", endpoint.Address), "write an IPv4 or IPv6 address"))
			continue
		}
		if endpoint.Draining {
			continue
		}
		if why := cmp.Or(policy.Written(addr), e.pods.outside(addr)); why != "" {
			why = fmt.Sprintf("address %s %s", endpoint.Address, why)
			denied = cmp.Or(denied, "none of its model servers is allowed: "+why)
			found = append(found, notAllowed(e.imp.Ref, e.Name, []outside{{field(), why}})...)
			continue
		}
		ports := p.Ports
		if len(endpoint.Ports) > 0 {
			ports = nil
			for _, port := range endpoint.Ports {
				ports = append(ports, uint16(port))
			}
		}
		for _, port := range ports {
			p.Remote = append(p.Remote, netip.AddrPortFrom(addr.Unmap(), port))
		}
	}
	p.Findings = append(p.Findings, few(found)...)
	slices.SortFunc(p.Remote, netip.AddrPort.Compare)
	if p.Remote = slices.Compact(p.Remote); len(p.Remote) > 0 {
		return ""
	}
	return denied
}

// relayed makes Penstock's picker call the remote picker, because the pods are unknown here.
// Penstock's picker checks the remote picks and adds them to the Envoy cluster before it answers.
// If no pick can be allowed, denied is the reason.
func (e *exporter) relayed(p *model.Pool, pickers []model.RemoteAddress) (denied string) {
	p.Picker = model.PickerCall{Cluster: model.OurPicker, Names: p.Picker.Names, Pool: p.Name,
		RemotePool: p.Picker.RemotePool, Body: model.BodyBuffered, Served: true, Open: p.FailOpen}
	p.Relay = &model.Relay{Pickers: pickers, Import: e.imp.Ref.Key(), Member: e.Name, Field: e.field,
		Within: e.pods.lists()}
	if len(p.Relay.Within) == 0 {
		p.Findings = append(p.Findings, warningOn(e.imp.Ref, e.field+".podCIDRs",
			"cluster "+e.Name+" names neither its pods nor their range: its picker may name any allowed address but "+
				"loopback ones", "give podCIDRs here, or remote.podCIDRs in a PoolPolicy for this import"))
	}
	if why := e.pods.disjoint(); why != "" {
		denied = "none of its model servers is allowed: " + why
		p.Findings = append(p.Findings, notAllowed(e.imp.Ref, e.Name, []outside{{e.field + ".podCIDRs", denied}})...)
	}
	return denied
}
