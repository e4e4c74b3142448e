package gatewayapi_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
)

func operations(t *testing.T, text string) []store.Op {
	t.Helper()
	tables := map[string]store.Kind{}
	for _, k := range store.Tables() {
		tables[k.Kind()] = k
	}
	if strings.Contains(text, "$CERT") {
		cert, key := certificate(t)
		_, other := certificate(t)
		text = strings.NewReplacer("$CERT", strconv.Quote(cert), "$KEY", strconv.Quote(key), "$OTHERKEY",
			strconv.Quote(other)).Replace(text)
	}
	var ops []store.Op
	for _, doc := range strings.Split(text, "\n---\n") {
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		table := tables[head.Kind]
		if table == nil {
			t.Fatalf("kind %q in\n%s", head.Kind, doc)
		}
		obj := table.New()
		if err := yaml.UnmarshalStrict([]byte(doc), obj); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		if table.Namespaced() && obj.GetNamespace() == "" {
			obj.SetNamespace("default")
		}
		ops = append(ops, table.PutObject(obj))
	}
	return ops
}

func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return selfSigned(t, private)
}

func selfSigned(t *testing.T, private crypto.Signer, changes ...func(*x509.Certificate)) (cert, key string) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "example.com"},
		DNSNames:  []string{"example.com", "*.example.com"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
	}
	for _, change := range changes {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

func view(t *testing.T, ops []store.Op) *store.View {
	t.Helper()
	s := store.New()
	ops = append([]store.Op{store.AddressPolicies.Put(addresses.Unrestricted())}, ops...)
	if _, err := s.Apply(ops...); err != nil {
		t.Fatal(err)
	}
	return s.View()
}

// fakeBackends resolves the pools and imports in the store. An import's targets are its clusters
// with their weights.
type fakeBackends struct{}

func (b fakeBackends) Restrict(r store.Reader, ref report.Ref, _ *v1alpha1.PoolPolicy) gatewayapi.Resolution {
	return b.Resolve(r, ref, 0)
}

func (fakeBackends) Resolve(r store.Reader, ref report.Ref, _ int32) gatewayapi.Resolution {
	if ref.Kind == "InferencePool" {
		if _, ok := store.InferencePools.Get(r, ref.Key()); ok {
			cluster := model.PoolCluster(ref.Namespace, ref.Name)
			return gatewayapi.Resolution{
				Targets: []gatewayapi.Target{
					{
						Cluster: cluster, Share: 1,
						Picker: &model.PickerCall{
							Cluster: model.OurPicker,
							Pool:    objectid.Target{Pool: objectid.Pool{Namespace: ref.Namespace, Name: ref.Name}},
						},
					},
				},
				Clusters: []model.ClusterID{cluster, model.OurPicker},
			}
		}
	} else if imp, ok := store.InferencePoolImports.Get(r, ref.Key()); ok {
		return importTargets(imp)
	}
	return gatewayapi.Resolution{Reason: "BackendNotFound", Message: fmt.Sprintf("%s does not exist", ref)}
}

func importTargets(imp *inferenceapi.InferencePoolImport) (res gatewayapi.Resolution) {
	for _, c := range imp.Status.Clusters {
		weight := int32(1)
		if c.Weight != nil {
			weight = *c.Weight
		}
		cluster := model.ImportCluster(imp.Namespace, imp.Name, c.Name)
		res.Targets = append(res.Targets, gatewayapi.Target{Cluster: cluster, Share: uint32(weight)})
		res.Clusters = append(res.Clusters, cluster)
	}
	return res
}

// world computes all decisions about the objects in a view, as package translator does.
type world struct {
	view     store.Reader
	cfg      gatewayapi.Config
	gateways map[string]*model.Gateway
	attached []*model.Attachment
	passed   []*model.Attachment // attached, as VirtualHost gets it
}

func decide(view store.Reader, cfg gatewayapi.Config) *world {
	w := &world{view: view, cfg: cfg, gateways: map[string]*model.Gateway{}}
	for _, gw := range store.Gateways.All(view) {
		if g := gatewayapi.Gateway(view, cfg, store.ID(gw)); g != nil {
			w.gateways[store.ID(gw)] = g
		}
	}
	var candidates []*model.Candidate
	for _, key := range routeKeys(view) {
		candidates = append(candidates, gatewayapi.Candidate(view, cfg, w.gateway, key))
	}
	var losses []model.Loss
	for key, gw := range w.gateways {
		for _, l := range gw.Listeners {
			losses = append(losses, gatewayapi.Contest(key, l.Key, candidates)...)
		}
	}
	for _, c := range candidates {
		var own []model.Loss
		for _, l := range losses {
			if l.Route == c.Route {
				own = append(own, l)
			}
		}
		w.attached = append(w.attached, gatewayapi.Attach(view, fakeBackends{}, c, own))
	}
	w.passed = slices.Clone(w.attached)
	return w
}

func (w *world) gateway(key string) (*model.Gateway, bool) { g, ok := w.gateways[key]; return g, ok }

func routeKeys(view store.Reader) (keys []string) {
	for _, o := range store.HTTPRoutes.All(view) {
		keys = append(keys, store.TargetKey("HTTPRoute", o.Namespace, o.Name))
	}
	for _, o := range store.GRPCRoutes.All(view) {
		keys = append(keys, store.TargetKey("GRPCRoute", o.Namespace, o.Name))
	}
	for _, o := range store.TLSRoutes.All(view) {
		keys = append(keys, store.TargetKey("TLSRoute", o.Namespace, o.Name))
	}
	for _, o := range store.TCPRoutes.All(view) {
		keys = append(keys, store.TargetKey("TCPRoute", o.Namespace, o.Name))
	}
	for _, o := range store.UDPRoutes.All(view) {
		keys = append(keys, store.TargetKey("UDPRoute", o.Namespace, o.Name))
	}
	return keys
}

func (w *world) gatewayKeys() []string {
	var keys []string
	for k := range w.gateways {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (w *world) hosts(gw *model.Gateway, chain string) (out []*model.VirtualHost) {
	var names []string
	for _, l := range gw.Listeners {
		// A listener without routes counts, too: otherwise a less specific listener would answer.
		if l.Chain == chain {
			names = append(names, l.Hostname)
		}
	}
	for _, a := range w.attached {
		for _, p := range a.Places {
			if p.Gateway == gw.Ref.Key() && p.Chain == chain {
				names = append(names, p.Hosts...)
			}
		}
	}
	slices.Sort(names)
	for _, h := range slices.Compact(names) {
		out = append(out,
			gatewayapi.VirtualHost(gw, chain, h, w.passed,
				gatewayapi.Budget{Over: func(*model.Attachment, int) bool { return false },
					Wider: gatewayapi.Share(1)}))
	}
	return out
}

func (w *world) String() string {
	var b bytes.Buffer
	for _, class := range store.GatewayClasses.All(w.view) {
		if rep := gatewayapi.Class(w.view, w.cfg, class.Name); rep != nil {
			w.report(&b, *rep)
		}
	}
	for _, gw := range store.Gateways.All(w.view) {
		if rep := gatewayapi.NotOurs(w.view, w.cfg, store.ID(gw)); rep != nil {
			w.report(&b, *rep)
		}
	}
	for _, key := range w.gatewayKeys() {
		gw := w.gateways[key]
		counts := map[string]int32{}
		for _, a := range w.attached {
			for _, p := range a.Places {
				if p.Gateway == key && gatewayapi.Accepted(a) {
					counts[p.Listener]++
				}
			}
		}
		w.report(&b, gatewayapi.GatewayReport(gw, func(l string) int32 { return counts[l] }))
		for _, p := range gatewayapi.Ports(gw) {
			for _, c := range p.Chains {
				w.chain(&b, gw, p, c)
			}
			for _, s := range w.streams(gw, p.Socket()) {
				streamText(&b, p, s)
			}
		}
	}
	for _, set := range store.ListenerSets.All(w.view) {
		rep := gatewayapi.ListenerSetReport(w.view, w.cfg, store.ID(set), w.gateway, func(gw, l string) (n int32) {
			for _, a := range w.attached {
				for _, p := range a.Places {
					if p.Gateway == gw && p.Listener == l && gatewayapi.Accepted(a) {
						n++
					}
				}
			}
			return n
		})
		if rep != nil {
			w.report(&b, *rep)
		}
	}
	for _, a := range w.attached {
		w.report(&b, gatewayapi.RouteReport(a, nil, nil))
		if len(a.Clusters) > 0 {
			names := make([]string, len(a.Clusters))
			for i, id := range a.Clusters {
				names[i] = id.String()
			}
			slices.Sort(names)
			fmt.Fprintf(&b, "  needs %s\n", strings.Join(names, " "))
		}
	}
	return b.String()
}

func (w *world) chain(b *bytes.Buffer, gw *model.Gateway, p model.Port, c model.Chain) {
	fmt.Fprintf(b, "  chain %s on %s", c.Name, strings.Join(p.Addresses, " "))
	if c.TLS {
		fmt.Fprintf(b, " sni=%q secrets=%v misdirected=%v", c.ServerName, c.Secrets, c.Misdirected)
		if c.Clients != nil {
			fmt.Fprintf(b, " clients=%+v", *c.Clients)
		}
	}
	b.WriteString("\n")
	for _, vh := range w.hosts(gw, c.Name) {
		fmt.Fprintf(b, "    host %s\n", vh.Host)
		for _, r := range vh.Routes {
			fmt.Fprintf(b, "      %s -> %s  (%s rule %d)\n", matchText(r.Match), actionText(r.Action), r.Owner.Key(),
				r.Rule)
		}
	}
}

func (w *world) streams(gw *model.Gateway, socket model.Socket) (out []model.Stream) {
	by := map[string]*model.Stream{}
	for _, l := range gw.Listeners {
		if l.Socket() != socket || !l.Stream() || l.Chain == "" {
			continue
		}
		hosts := map[string][]*model.Attachment{l.Hostname: nil}
		for _, a := range w.passed {
			for _, p := range a.Places {
				for _, h := range p.Hosts {
					if p.Gateway == gw.Ref.Key() && p.Chain == l.Chain {
						hosts[h] = append(hosts[h], a)
					}
				}
			}
		}
		for h, attached := range hosts {
			s := gatewayapi.Stream(gw, l.Chain, h, attached)
			by[s.Name] = s
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[name])
	}
	return out
}

func streamText(b *bytes.Buffer, p model.Port, s model.Stream) {
	fmt.Fprintf(b, "  stream %s on %s", s.Name, strings.Join(p.Addresses, " "))
	if s.TLS {
		fmt.Fprintf(b, " sni=%q secrets=%v", s.ServerName, s.Secrets)
	}
	b.WriteString(" ->")
	if len(s.Backends) == 0 {
		b.WriteString(" closed")
	}
	for _, w := range s.Backends {
		cluster := w.Cluster.String()
		if cluster == "" {
			cluster = "closed"
		}
		fmt.Fprintf(b, " %d:%s", w.Weight, cluster)
	}
	for _, o := range s.Owners {
		fmt.Fprintf(b, "  (%s)", o)
	}
	b.WriteString("\n")
}

func matchText(m model.Match) string {
	out := string(m.PathKind) + " " + m.Path
	if m.Method != "" {
		out += " " + m.Method
	}
	if m.GRPC != nil {
		out = "gRPC " + out
	}
	for _, list := range []struct {
		what   string
		values []model.ValueMatch
	}{{"header", m.Headers}, {"query", m.Query}} {
		for _, v := range list.values {
			op := "="
			if v.Regex {
				op = "~"
			}
			out += fmt.Sprintf(" %s %s%s%s", list.what, v.Name, op, v.Value)
		}
	}
	return out
}

func actionText(a *model.Action) string {
	var parts []string
	switch {
	case a.Direct != nil:
		parts = append(parts, strconv.Itoa(int(a.Direct.Status)))
	case a.Redirect != nil:
		parts = append(parts,
			fmt.Sprintf("%d scheme=%q host=%q port=%d%s", a.Redirect.Code, a.Redirect.Scheme, a.Redirect.Host,
				a.Redirect.Port, pathText(a.Redirect.Path)))
	case a.Forward != nil:
		for _, w := range a.Forward.Backends {
			cluster := w.Cluster.String()
			if cluster == "" {
				cluster = "500"
			}
			part := fmt.Sprintf("%d:%s%s%s", w.Weight, cluster, headerText("request", w.RequestHeaders),
				headerText("response", w.ResponseHeaders))
			if w.RewriteHost != "" {
				part += " host=" + w.RewriteHost
			}
			if o := w.Own; o != nil {
				own := model.Action{Redirect: o.Redirect, CORS: o.CORS, Auth: o.Auth}
				if o.Redirect == nil {
					own.Forward = &model.Forward{RewritePath: o.RewritePath, Mirrors: o.Mirrors}
				}
				part += fmt.Sprintf(" own(%s)", actionText(&own))
			}
			parts = append(parts, part)
		}
		if a.Forward.RewriteHost != "" {
			parts = append(parts, "host="+a.Forward.RewriteHost)
		}
		if s := pathText(a.Forward.RewritePath); s != "" {
			parts = append(parts, strings.TrimSpace(s))
		}
		if a.Forward.Timeout != nil {
			parts = append(parts, "timeout="+a.Forward.Timeout.String())
		}
		if a.Forward.BackendTimeout != nil {
			parts = append(parts, "backendTimeout="+a.Forward.BackendTimeout.String())
		}
		if r := a.Forward.Retry; r != nil {
			parts = append(parts, fmt.Sprintf("retry=%d%v+%s", r.Attempts, r.Codes, r.Backoff))
		}
		for _, m := range a.Forward.Mirrors {
			parts = append(parts, fmt.Sprintf("mirror=%d/%d:%s", m.Numerator, m.Denominator, m.Cluster))
		}
		if s := a.Forward.Session; s != nil {
			parts = append(parts, fmt.Sprintf("session=%+v", *s))
		}
	}
	if a.CORS != nil {
		parts = append(parts, fmt.Sprintf("cors=%+v", *a.CORS))
	}
	if a.Auth != nil {
		parts = append(parts, fmt.Sprintf("auth=%+v", *a.Auth))
	}
	return strings.Join(parts, " ") + headerText("request", a.RequestHeaders) +
		headerText("response", a.ResponseHeaders)
}

func pathText(p model.PathChange) string {
	switch {
	case p.Full != nil:
		return " path=" + *p.Full
	case p.Prefix != nil:
		return " prefix=" + *p.Prefix
	}
	return ""
}

func headerText(what string, c model.HeaderChanges) (out string) {
	for _, h := range c.Set {
		out += fmt.Sprintf(" %s.%s=%s", what, h.Name, h.Value)
	}
	for _, h := range c.Add {
		out += fmt.Sprintf(" %s.%s+=%s", what, h.Name, h.Value)
	}
	for _, h := range c.Remove {
		out += fmt.Sprintf(" -%s.%s", what, h)
	}
	return out
}

func (w *world) report(b *bytes.Buffer, rep report.Report) {
	fmt.Fprintf(b, "%s\n", rep.Owner)
	conditions(b, "  ", rep.Conditions)
	if rep.AttachedListenerSets > 0 {
		fmt.Fprintf(b, "  listener sets attached=%d\n", rep.AttachedListenerSets)
	}
	for _, l := range rep.Listeners {
		fmt.Fprintf(b, "  listener %s attached=%d kinds=", l.Name, l.AttachedRoutes)
		for i, k := range l.SupportedKinds {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(k.Kind)
		}
		b.WriteString("\n")
		conditions(b, "    ", l.Conditions)
	}
	for _, p := range rep.Parents {
		b.WriteString("  parent ")
		if p.Ref.Kind != "Gateway" {
			b.WriteString(p.Ref.Kind + " ")
		}
		fmt.Fprintf(b, "%s/%s", p.Ref.Namespace, p.Ref.Name)
		if p.Ref.SectionName != "" {
			fmt.Fprintf(b, " section %s", p.Ref.SectionName)
		}
		if p.Ref.Port != 0 {
			fmt.Fprintf(b, " port %d", p.Ref.Port)
		}
		b.WriteString("\n")
		conditions(b, "    ", p.Conditions)
	}
	for _, f := range rep.Findings {
		fmt.Fprintf(b, "  %s %s: %s", f.Severity, f.Field, f.Problem)
		if f.Fix != "" {
			fmt.Fprintf(b, "; %s", f.Fix)
		}
		b.WriteString("\n")
	}
}

func conditions(b *bytes.Buffer, indent string, list []report.Condition) {
	for _, c := range list {
		fmt.Fprintf(b, "%s%s=%s %s", indent, c.Type, c.Status, c.Reason)
		if c.Message != "" {
			fmt.Fprintf(b, ": %s", c.Message)
		}
		b.WriteString("\n")
	}
}
