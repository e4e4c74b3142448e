package deployment

import (
	"slices"
	"strconv"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
)

// Models returns the model names that a route matches exactly.
func Models(r *gatewayv1.HTTPRoute) (out []string) {
	for i := range r.Spec.Rules {
		for _, match := range r.Spec.Rules[i].Matches {
			for _, h := range match.Headers {
				exact := h.Type == nil || *h.Type == gatewayv1.HeaderMatchExact
				if exact && strings.EqualFold(string(h.Name), modelHeader) && !slices.Contains(out, h.Value) {
					out = append(out, h.Value)
				}
			}
		}
	}
	return out
}

// Overlaps returns the model names of the deployment that a user's route also matches, at the same
// Gateway and hostname. Only Model and Field of each Claim are set.
func (p *Plan) Overlaps(r *gatewayv1.HTTPRoute) (out []Claim) {
	models := Models(r)
	for _, name := range p.names() {
		if slices.Contains(models, name.text) && p.shares(r) {
			out = append(out, Claim{Model: name.text, Field: name.field})
		}
	}
	return out
}

func (p *Plan) shares(r *gatewayv1.HTTPRoute) bool {
	hosts, own := r.Spec.Hostnames, p.Deployment.Spec.Hostnames
	if len(hosts) > 0 && len(own) > 0 && !slices.ContainsFunc(hosts,
		func(h gatewayv1.Hostname) bool { return slices.Contains(own, string(h)) }) {
		return false
	}
	for _, parent := range r.Spec.ParentRefs {
		if parent.Kind != nil && *parent.Kind != "Gateway" {
			continue
		}
		namespace := r.Namespace
		if parent.Namespace != nil {
			namespace = string(*parent.Namespace)
		}
		if slices.Contains(p.gateways(), store.TargetKey("Gateway", namespace, string(parent.Name))) {
			return true
		}
	}
	return false
}

// gateways returns the keys ("namespace/name") of the deployment's Gateways.
func (p *Plan) gateways() (out []string) {
	for _, g := range p.Deployment.Spec.GatewayRefs {
		namespace := g.Namespace
		if namespace == "" {
			namespace = p.Deployment.Namespace
		}
		out = append(out, store.TargetKey("Gateway", namespace, g.Name))
	}
	return out
}

// URL returns the URL of the model's API at a Gateway of the deployment; "": no Gateway has one.
// find returns the Gateway with a key, or nil.
func (p *Plan) URL(find func(id string) *gatewayv1.Gateway) string {
	for i, ref := range p.Deployment.Spec.GatewayRefs {
		namespace := ref.Namespace
		if namespace == "" {
			namespace = p.Deployment.Namespace
		}
		g := find(objectid.Join(namespace, ref.Name))
		if g == nil {
			continue
		}
		for _, l := range g.Spec.Listeners {
			if ref.SectionName != "" && string(l.Name) != p.Deployment.Spec.GatewayRefs[i].SectionName {
				continue
			}
			if scheme := schemes[l.Protocol]; scheme != "" {
				return scheme + "://" + p.hostOf(g, &l) + ":" + strconv.Itoa(int(l.Port)) + "/v1"
			}
		}
	}
	return ""
}

var schemes = map[gatewayv1.ProtocolType]string{
	gatewayv1.HTTPProtocolType: "http", gatewayv1.HTTPSProtocolType: "https",
}

func (p *Plan) hostOf(g *gatewayv1.Gateway, l *gatewayv1.Listener) string {
	for _, host := range p.Deployment.Spec.Hostnames {
		if !strings.HasPrefix(host, "*") {
			return host
		}
	}
	if l.Hostname != nil && !strings.HasPrefix(string(*l.Hostname), "*") && *l.Hostname != "" {
		return string(*l.Hostname)
	}
	if len(g.Spec.Addresses) > 0 && g.Spec.Addresses[0].Value != "" {
		return g.Spec.Addresses[0].Value
	}
	return "localhost"
}
