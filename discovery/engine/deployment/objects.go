package deployment

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// modelHeader is a request header. The gateway sets it to the model in the request's body.
const modelHeader = "X-Gateway-Model-Name"

// paths has, for each task, the request paths that the HTTPRoute matches.
var paths = map[string][]string{
	v1alpha1.TextGeneration: {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"},
	v1alpha1.TextEmbedding:  {"/v1/embeddings"},
	v1alpha1.TextRerank:     {"/v1/rerank", "/v2/rerank", "/rerank"},
}

// unusedPort is the InferencePool's required target port. Nothing connects to it, because each
// server listens on its own port.
const unusedPort = 8000

// Derived returns the tables of the objects that Objects returns.
func Derived() []store.Kind {
	return []store.Kind{store.InferencePools, store.PoolPolicies, store.HTTPRoutes, store.ModelServers,
		store.AccessPolicies}
}

// Objects returns the objects that route requests to the ready servers (see doc.go).
func (p *Plan) Objects(ready []Server) []store.Object {
	out := []store.Object{p.pool()}
	dialect := p.metrics != "" && p.metrics != "vllm" || p.metricsPath != ""
	if scheduler := p.Deployment.Spec.Scheduler; dialect || scheduler != nil {
		policy := &v1alpha1.PoolPolicy{ObjectMeta: p.meta()}
		policy.Spec.TargetRef.Name = p.Deployment.Name
		if dialect {
			policy.Spec.Picker.Metrics = &v1alpha1.MetricsSpec{Engine: p.metrics, Path: p.metricsPath}
		}
		if scheduler != nil {
			policy.Spec.Picker.Strategy = v1alpha1.Strategy(scheduler.Strategy)
			policy.Spec.Picker.CHWBL, policy.Spec.Picker.Session = scheduler.CHWBL, scheduler.Session
		}
		out = append(out, policy)
	}
	if len(p.Deployment.Spec.GatewayRefs) > 0 {
		out = append(out, p.route())
	}
	if p.Deployment.Spec.Access != nil {
		out = append(out, p.policy())
	}
	if len(ready) > 0 {
		servers := &v1alpha1.ModelServers{ObjectMeta: p.meta()}
		for _, s := range ready {
			servers.Spec.Servers = append(servers.Spec.Servers,
				v1alpha1.ModelServer{Address: s.Host, Ports: []int32{int32(s.Port)}, Draining: s.Draining})
		}
		out = append(out, servers)
	}
	return out
}

func (p *Plan) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.Deployment.Namespace, Name: p.Deployment.Name,
		CreationTimestamp: p.Deployment.CreationTimestamp,
		Labels:            map[string]string{v1alpha1.DeploymentLabel: p.Deployment.Name}}
}

func (p *Plan) pool() *inferencev1.InferencePool {
	pool := &inferencev1.InferencePool{ObjectMeta: p.meta()}
	pool.Spec.Selector.MatchLabels = map[inferencev1.LabelKey]inferencev1.LabelValue{
		v1alpha1.DeploymentLabel: inferencev1.LabelValue(p.Deployment.Name)}
	pool.Spec.TargetPorts = []inferencev1.Port{{Number: unusedPort}}
	return pool
}

func (p *Plan) route() *gatewayv1.HTTPRoute {
	r := &gatewayv1.HTTPRoute{ObjectMeta: p.meta()}
	for _, g := range p.Deployment.Spec.GatewayRefs {
		parent := gatewayv1.ParentReference{Group: new(gatewayv1.Group(gatewayv1.GroupName)),
			Kind: new(gatewayv1.Kind("Gateway")), Name: gatewayv1.ObjectName(g.Name)}
		if g.Namespace != "" {
			parent.Namespace = new(gatewayv1.Namespace(g.Namespace))
		}
		if g.SectionName != "" {
			parent.SectionName = new(gatewayv1.SectionName(g.SectionName))
		}
		r.Spec.ParentRefs = append(r.Spec.ParentRefs, parent)
	}
	for _, host := range p.Deployment.Spec.Hostnames {
		r.Spec.Hostnames = append(r.Spec.Hostnames, gatewayv1.Hostname(host))
	}
	// One rule for each name stays within the limits of an HTTPRoute: 16 rules, and 64 matches in
	// each.
	for _, name := range p.names() {
		r.Spec.Rules = append(r.Spec.Rules, p.rule(name.text))
	}
	return r
}

func (p *Plan) rule(model string) gatewayv1.HTTPRouteRule {
	rule := gatewayv1.HTTPRouteRule{BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{
		BackendObjectReference: gatewayv1.BackendObjectReference{Group: new(gatewayv1.Group(inferencev1.GroupName)),
			Kind: new(gatewayv1.Kind("InferencePool")), Name: gatewayv1.ObjectName(p.Deployment.Name)},
		Weight: new(int32(1))}}}}
	for _, path := range paths[p.task] {
		rule.Matches = append(rule.Matches, gatewayv1.HTTPRouteMatch{
			Path: &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchPathPrefix), Value: &path},
			Headers: []gatewayv1.HTTPHeaderMatch{{Type: new(gatewayv1.HeaderMatchExact), Name: modelHeader,
				Value: model}},
		})
	}
	return rule
}

// Claim is a model name that a deployment uses at a Gateway and a hostname. No other deployment may
// use the same name there.
type Claim struct {
	Key   string // equal for the same Gateway, hostname and model
	Model string
	Field string // the field of the ModelDeployment with the model name
}

// Claims returns a Claim for each model name, Gateway and hostname of the deployment.
func (p *Plan) Claims() (out []Claim) {
	hosts := p.Deployment.Spec.Hostnames
	if len(hosts) == 0 {
		hosts = []string{"*"}
	}
	for _, name := range p.names() {
		for _, g := range p.gateways() {
			for _, host := range hosts {
				out = append(out, Claim{Key: g + " " + host + " " + name.text, Model: name.text, Field: name.field})
			}
		}
	}
	return out
}
