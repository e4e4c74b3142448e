package inference

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/translator/services"
)

// Pool translates an InferencePool.
func Pool(r store.Reader, key string) (*model.Pool, bool) {
	obj, ok := store.InferencePools.Get(r, key)
	if !ok {
		return nil, false
	}
	p, policy := basePool(r, obj)
	addSpill(r, p, policy)
	p.Findings = append(p.Findings, ineffective(p, policy)...)
	if policy != nil && policy.Spec.ExternalPicker != nil && !p.External {
		p.Findings = append(p.Findings,
			unused(policy, []string{"spec.externalPicker"}, p.Ref.String()+" has no external picker",
				"remove it, or name the picker in the pool's endpointPickerRef"))
	}
	return p, true
}

// basePool translates an InferencePool, without spill targets. Hops use this result, so that pools
// that spill to each other cause no endless recursion.
func basePool(r store.Reader, obj *inferencev1.InferencePool) (*model.Pool, *v1alpha1.PoolPolicy) {
	policy, ignored := policyFor(r, "InferencePool", obj.Namespace, obj.Name)
	p := describe(obj, policy, ignored)
	withCredential(r, p, policy)
	p.Settings.ReadsModels, p.Settings.RewritesModels = modelUse(r, obj.Namespace, obj.Name)
	if ref := obj.Spec.EndpointPickerRef; ref == nil {
		plugins(r, p, policy)
		p.Findings = append(p.Findings, cleartextPages(p, policy)...)
		withProcessor(r, p, policy)
		ourPicker(p, policy)
	} else {
		p.Picker.Names = pickerNames(policy)
		externalPicker(r, p, obj.Namespace, ref)
	}
	text, _ := subsetSelector(policy)
	withSubset(r, p, text)
	slices.SortFunc(p.Owners, report.Ref.Compare) // resources sort owners in place
	nameLast(p, policy)
	return p, policy
}

func describe(obj *inferencev1.InferencePool, policy *v1alpha1.PoolPolicy, ignored []report.Finding) *model.Pool {
	p := &model.Pool{
		Name:     objectid.Target{Pool: objectid.Pool{Namespace: obj.Namespace, Name: obj.Name}},
		Ref:      store.InferencePools.Ref(obj),
		Cluster:  model.PoolCluster(obj.Namespace, obj.Name),
		Protocol: protocolOf(obj.Spec.AppProtocol),
		Selector: map[string]string{},
		Settings: settings(policy),
		Resolved: report.Condition{Type: "ResolvedRefs", Status: report.True, Reason: "ResolvedRefs"},
		Findings: ignored,
	}
	p.Owners = append(p.Owners, p.Ref)
	if policy != nil {
		p.Owners = append(p.Owners, store.PoolPolicies.Ref(policy))
	}
	for k, v := range obj.Spec.Selector.MatchLabels {
		p.Selector[string(k)] = string(v)
	}
	for _, port := range obj.Spec.TargetPorts {
		p.Ports = append(p.Ports, uint16(port.Number))
	}
	return p
}

func protocolOf[S ~string](appProtocol S) model.Protocol {
	if appProtocol == S(inferencev1.AppProtocolH2C) {
		return model.H2C
	}
	return model.HTTP1
}

// externalPicker makes Envoy call the pool's external picker. If the picker is unusable, the pool
// has only its failure mode.
func externalPicker(r store.Reader, p *model.Pool, namespace string, ref *inferencev1.EndpointPickerRef) {
	p.External = true
	p.FailOpen = ref.FailureMode == inferencev1.EndpointPickerFailOpen
	unresolved := func(field, problem, fix string) {
		p.Resolved = report.Condition{Type: "ResolvedRefs", Status: report.False, Reason: "InvalidExtensionRef",
			Message: problem + "; " + fix}
		p.Findings = append(p.Findings, errorOn(p.Ref, "spec.endpointPickerRef."+field, problem, fix))
	}
	if g := ref.Group; ref.Kind != "" && ref.Kind != "Service" || g != nil && *g != "" {
		unresolved("kind", fmt.Sprintf("an endpoint picker must be a core Service, not %s", ref.Kind),
			"name a Service, or leave endpointPickerRef out to use Penstock's own picker")
		return
	}
	svc, ok := store.Services.Get(r, objectid.Join(namespace, string(ref.Name)))
	if !ok {
		unresolved("name", noService(r, namespace, string(ref.Name)),
			"create it, or leave endpointPickerRef out to use Penstock's own picker")
		return
	}
	problem, fix := externalName(r, svc)
	if problem != "" {
		unresolved("name", problem, fix)
		return
	}
	port := int32(9002)
	if ref.Port != nil {
		port = int32(ref.Port.Number)
	}
	i := slices.IndexFunc(svc.Spec.Ports, func(sp corev1.ServicePort) bool { return sp.Port == port })
	if i < 0 {
		unresolved("port", fmt.Sprintf("Service %s/%s has no port %d", namespace, svc.Name, port),
			"name one of the Service's ports")
		return
	}
	p.Owners = append(p.Owners, store.Services.Ref(svc))
	askExternal(r, p, model.PickerCluster(namespace, svc.Name, port), "", "spec.endpointPickerRef",
		"spec.endpointPickerRef.failureMode")
	if c, ok := PickerCluster(r, p.Picker.Cluster); ok {
		p.Picker.Cluster = configured(c)
	}
	if policy := gatewayapi.PolicyFor(r, store.Services.Ref(svc), svc.Spec.Ports[i].Name); policy != nil {
		p.Owners = append(p.Owners, policy.Policy)
	} else if !Cleartext(svc.Spec.Ports[i].AppProtocol) {
		p.Findings = append(p.Findings,
			unverified(p.Ref, "spec.endpointPickerRef", "",
				fmt.Sprintf(
					"set appProtocol: kubernetes.io/h2c on port %d of Service %s/%s; to have it verified, write a "+
						"BackendTLSPolicy for the Service", port, namespace, svc.Name)))
	}
}

func externalName(r store.Reader, svc *corev1.Service) (problem, fix string) {
	if svc.Spec.Type != corev1.ServiceTypeExternalName {
		return "", ""
	}
	host, ok := services.External(r, svc, services.Mention)
	switch {
	case !ok:
		return fmt.Sprintf("Service %s is of type ExternalName, which is not allowed here", store.ID(svc)),
			gatewayapi.ExternalNameFix
	case host.Outside != "" && len(host.Addresses) == 0:
		return fmt.Sprintf("Service %s: %s", store.ID(svc), host.Outside), addresses.Fix(host.Outside)
	}
	return "", ""
}

// askExternal makes Envoy call an external picker in the mode that the picker supports
// (picker/probe). field is the picker's field in its object, and mode the field of its failure
// mode.
func askExternal(r store.Reader, p *model.Pool, cluster model.ClusterID, what, field, mode string) {
	p.Picker = model.PickerCall{Cluster: cluster, Names: p.Picker.Names, Pool: p.Name, RemotePool: p.Picker.RemotePool,
		Body: model.BodyDuplex, Served: true, Open: p.FailOpen}
	d, known := store.Dialects.Get(r, cluster.String())
	if known && d.Health {
		p.Picker.Cluster = cluster.As(model.HealthVariant)
	}
	if known && d.Acknowledges {
		p.Picker.Body = model.BodyWhole
		p.Findings = append(p.Findings, infoOn(p.Ref, field,
			what+"the picker reads bodies and does not send them back, which the endpoint picker protocol demands: "+
				"it gets each body in one piece, and its changes to the body are ignored",
			"nothing; a newer release of the picker may speak the protocol (lwepp does after v1.6.0)"))
		return
	}
	if p.FailOpen {
		p.Findings = append(p.Findings, bestEffort(p.Ref, mode))
	}
}

func bestEffort(owner report.Ref, field string) report.Finding {
	return infoOn(owner, field,
		"FailOpen is best effort with a picker that reads bodies as a stream: a request that it has begun to read "+
			"cannot be sent elsewhere", "")
}

// unverified returns a finding about unverified TLS. Its severity is Info, because common pickers
// have self-signed certificates.
func unverified(owner report.Ref, field, what, cleartext string) report.Finding {
	return infoOn(owner, field, what+"the picker is asked over TLS, and its certificate is not verified",
		"for a picker without TLS "+cleartext)
}

// Cleartext reports whether a picker's port speaks gRPC without TLS. Only a port with appProtocol
// kubernetes.io/h2c does.
func Cleartext(appProtocol *string) bool {
	return appProtocol != nil && *appProtocol == string(inferencev1.AppProtocolH2C)
}
