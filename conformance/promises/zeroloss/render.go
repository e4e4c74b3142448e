package main

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"
)

// order has the prefixes of files in the order of writing. Files are removed in the reverse order,
// so that the target of every reference exists.
var order = []string{"servers-", "secret-", "service-", "pool-", "import-", "policy-", "gateway", "route-"}

func (w *world) render() map[string]string {
	files := map[string]string{"gateway.yaml": w.gateway.yaml()}
	for name, f := range w.fleets {
		files["servers-"+name+".yaml"] = f.yaml()
	}
	for name, s := range w.secrets {
		files["secret-"+name+".yaml"] = object("v1", "Secret", name) +
			fmt.Sprintf("type: kubernetes.io/tls\ndata:\n  tls.crt: %s\n  tls.key: %s\n",
				base64.StdEncoding.EncodeToString([]byte(s.cert)), base64.StdEncoding.EncodeToString([]byte(s.key)))
	}
	for name, fleet := range w.services {
		files["service-"+name+".yaml"] = object("v1", "Service", name) +
			fmt.Sprintf("spec:\n  selector: {app: %s}\n  ports: [{port: 80, targetPort: 8000}]\n", fleet)
	}
	for name, p := range w.pools {
		files["pool-"+name+".yaml"] = p.yaml(name)
		if p.policy {
			files["policy-"+name+".yaml"] = p.policyYAML(name)
		}
	}
	for name, imp := range w.imports {
		files["import-"+name+".yaml"] = imp.yaml(w, name)
	}
	for name, r := range w.routes {
		files["route-"+name+".yaml"] = r.yaml(name)
	}
	return files
}

func object(version, kind, name string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s}\n", version, kind, name)
}

func (g *gateway) yaml() string {
	var b strings.Builder
	b.WriteString(object("gateway.networking.k8s.io/v1", "Gateway", "gw"))
	b.WriteString("spec:\n  gatewayClassName: penstock\n  addresses: [{value: 127.0.0.1}]\n  listeners:\n")
	hostname := ""
	if g.hostname != "" {
		hostname = fmt.Sprintf(", hostname: %q", g.hostname)
	}
	fmt.Fprintf(&b, "  - {name: http, port: %d, protocol: HTTP%s}\n", g.port, hostname)
	for _, name := range sortedKeys(g.secure) {
		l := g.secure[name]
		fmt.Fprintf(&b,
			"  - {name: %s, port: %d, protocol: HTTPS, hostname: %s, tls: {certificateRefs: [{name: %s}]}}\n", name,
			g.tlsPort, l.host, l.secret)
	}
	if g.extra {
		fmt.Fprintf(&b, "  - {name: extra, port: %d, protocol: HTTP}\n", g.extraPort)
	}
	return b.String()
}

func (f *fleet) yaml() string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"apiVersion: penstock.dev/v1alpha1\nkind: ModelServers\nmetadata: {name: %s, labels: {app: %s}}\nspec:\n  "+
			"servers:\n", f.name, f.name)
	for _, s := range f.sorted() {
		fmt.Fprintf(&b, "  - {address: %s, ports: [%d], draining: %t}\n", cmp.Or(f.host, "127.0.0.1"), s.port,
			s.draining)
	}
	return b.String()
}

func (p *pool) yaml(name string) string {
	text := object("inference.networking.k8s.io/v1", "InferencePool", name) +
		fmt.Sprintf("spec:\n  selector: {matchLabels: {app: %s}}\n  targetPorts: [{number: 8000}]\n", p.fleet)
	if p.h2c {
		text += "  appProtocol: kubernetes.io/h2c\n"
	}
	if p.external {
		text += fmt.Sprintf("  endpointPickerRef: {name: external, port: {number: 9002}, failureMode: %s}\n",
			p.failureMode())
	}
	return text
}

func (p *pool) failureMode() string {
	if p.failClose {
		return "FailClose"
	}
	return "FailOpen"
}

func (p *pool) policyYAML(name string) string {
	text := object("penstock.dev/v1alpha1", "PoolPolicy", name) +
		fmt.Sprintf("spec:\n  targetRef: {name: %s}\n  picker: {strategy: %s, body: %s, fallbacks: %d, failureMode: %s",
			name, p.strategy, p.body, p.fallbacks, p.failureMode())
	if p.full > 0 {
		text += fmt.Sprintf(", full: {inFlight: %d}", p.full)
	}
	text += "}\n"
	if len(p.spill) > 0 {
		text += "  spill:\n"
		for _, s := range p.spill {
			text += fmt.Sprintf("  - {kind: %s, name: %s}\n", kinds[s.kind][1], s.name)
		}
	}
	return text
}

var kinds = map[string][2]string{
	"pool":    {"inference.networking.k8s.io", "InferencePool"},
	"import":  {"inference.networking.x-k8s.io", "InferencePoolImport"},
	"service": {"", "Service"},
}

func (i *imported) yaml(w *world, name string) string {
	text := object("inference.networking.x-k8s.io/v1alpha1", "InferencePoolImport", name) + "status:\n  clusters:\n"
	for _, m := range i.members {
		text += fmt.Sprintf("  - name: %s\n    weight: %d\n", m.name, m.weight)
		var ports []string
		parents := "    routingMode: ParentMode\n    parents:\n"
		for _, s := range w.fleets[m.fleet].sorted() {
			if !s.draining {
				ports = append(ports, fmt.Sprintf("{number: %d}", s.port))
				parents += fmt.Sprintf("    - service: {addresses: [127.0.0.1], ports: [{number: %d}]}\n", s.port)
			}
		}
		list := strings.Join(ports, ", ")
		if m.kind == "parent" {
			text += parents
			continue
		}
		mode := "FailOpen"
		if m.failClose {
			mode = "FailClose"
		}
		text += "    routingMode: EndpointMode\n    failureMode: " + mode + "\n    targetPorts: [" + list +
			"]\n    podCIDRs: [127.0.0.1/32]\n"
		text += fmt.Sprintf(
			"    endpointPicker: {service: {addresses: [127.0.0.1], ports: [{number: %d, appProtocol: "+
				"kubernetes.io/h2c}]}}\n", w.externalPort)
		if m.kind == "declared" {
			text += "    endpoints: [{address: 127.0.0.1}]\n"
		}
	}
	return text
}

func (r *route) yaml(name string) string {
	var b strings.Builder
	b.WriteString(object("gateway.networking.k8s.io/v1", "HTTPRoute", name))
	fmt.Fprintf(&b, "spec:\n  parentRefs: [{name: gw, sectionName: %s}]\n  hostnames: [%s]\n  rules:\n", r.section,
		r.host)
	var refs []string
	for _, x := range r.backends {
		ref := fmt.Sprintf("group: %q, kind: %s, name: %s, weight: %d", kinds[x.kind][0], kinds[x.kind][1], x.name,
			x.weight)
		if x.kind == "service" {
			ref += ", port: 80"
		}
		refs = append(refs, "{"+ref+"}")
	}
	if r.edits%2 == 1 { // a second, more specific rule for the same requests
		fmt.Fprintf(&b,
			"  - matches: [{path: {type: PathPrefix, value: /v1/chat}}]\n    filters: [{type: RequestHeaderModifier, "+
				"requestHeaderModifier: {set: [{name: x-edit, value: \"%d\"}]}}]\n    "+
				"backendRefs: [%s]\n", r.edits, strings.Join(refs, ", "))
	}
	fmt.Fprintf(&b, "  - backendRefs: [%s]\n", strings.Join(refs, ", "))
	return b.String()
}
