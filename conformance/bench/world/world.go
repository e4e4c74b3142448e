package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab/pki"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
)

// Gateway is a World's only Gateway, as "namespace/name".
const Gateway = "default/gw"

// RevisionHeader is the response header with a route's revision.
const RevisionHeader = "x-revision"

// Size configures a World.
type Size struct {
	Listeners int // HTTPS listeners at Port with a wildcard hostname each; 0 means one HTTP listener
	Hosts     int // each with one HTTPRoute, spread evenly over the listeners
	Backends  int // InferencePools and Services alternate
	Endpoints int // for each backend
	Port      int32
	NoPools   bool // all backends are Services
}

var (
	Routes5000    = Size{Listeners: 50, Hosts: 5000, Backends: 1000, Endpoints: 10, Port: 8443}
	Routes100     = Size{Listeners: 1, Hosts: 100, Backends: 20, Endpoints: 10, Port: 8443}
	Cleartext5000 = Size{Listeners: 0, Hosts: 5000, Backends: 1000, Endpoints: 10, Port: 8080}
)

// World makes the objects of one configuration.
type World struct {
	Size
	cert, key []byte
}

// New creates a World, whose listeners share one certificate.
func New(size Size) (*World, error) {
	subject := pki.Subject{Name: "bench"}
	for l := range size.Listeners {
		subject.DNS = append(subject.DNS, "*"+domain(l))
	}
	ca, err := pki.NewAuthority("bench", time.Now())
	if err != nil {
		return nil, err
	}
	pair, err := ca.Issue(subject)
	return &World{Size: size, cert: pair.Certificate, key: pair.Key}, err
}

func domain(listener int) string { return fmt.Sprintf(".l%d.example", listener) }

func ptr[T any](v T) *T { return &v }

func meta(format string, args ...any) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf(format, args...)}
}

// Host returns the hostname of route i.
func (w *World) Host(i int) string { return fmt.Sprintf("h%d%s", i, domain(i%max(w.Listeners, 1))) }

// Routes returns the name of route i's xDS route configuration.
func (w *World) Routes(i int) string {
	if w.Listeners == 0 {
		return model.RoutesName(model.ChainName(false, uint16(w.Port), ""))
	}
	return model.RoutesName(model.ChainName(true, uint16(w.Port), "*"+domain(i%w.Listeners)))
}

// GatewayObject returns the Gateway.
func (w *World) GatewayObject() *gatewayv1.Gateway {
	g := &gatewayv1.Gateway{TypeMeta: metav1.TypeMeta{APIVersion: "gateway.networking.k8s.io/v1", Kind: "Gateway"},
		ObjectMeta: meta("gw")}
	g.Spec.GatewayClassName = "penstock"
	g.Spec.Addresses = []gatewayv1.GatewaySpecAddress{{Type: ptr(gatewayv1.IPAddressType), Value: "127.0.0.1"}}
	if w.Listeners == 0 {
		g.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: w.Port, Protocol: gatewayv1.HTTPProtocolType}}
	}
	for l := range w.Listeners {
		g.Spec.Listeners = append(g.Spec.Listeners, gatewayv1.Listener{
			Name: gatewayv1.SectionName(fmt.Sprint("l", l)), Hostname: ptr(gatewayv1.Hostname("*" + domain(l))),
			Port: w.Port, Protocol: gatewayv1.HTTPSProtocolType,
			TLS: &gatewayv1.ListenerTLSConfig{
				CertificateRefs: []gatewayv1.SecretObjectReference{{Name: gatewayv1.ObjectName(fmt.Sprint("cert", l))}},
			},
		})
	}
	return g
}

// SecretObject returns the certificate of listener l.
func (w *World) SecretObject(l int) *corev1.Secret {
	return &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta("cert%d", l),
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: w.cert, corev1.TLSPrivateKeyKey: w.key}}
}

// Route returns route i, which sets the response header RevisionHeader to revision.
func (w *World) Route(i, revision int) *gatewayv1.HTTPRoute {
	r := &gatewayv1.HTTPRoute{TypeMeta: metav1.TypeMeta{APIVersion: "gateway.networking.k8s.io/v1", Kind: "HTTPRoute"},
		ObjectMeta: meta("route-%d", i)}
	r.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "gw"}}
	r.Spec.Hostnames = []gatewayv1.Hostname{gatewayv1.Hostname(w.Host(i))}
	b := i % w.Backends
	ref := gatewayv1.HTTPBackendRef{}
	ref.Name = gatewayv1.ObjectName(fmt.Sprint("svc-", b))
	ref.Port = ptr[gatewayv1.PortNumber](80)
	if w.pooled(b) {
		ref.Group, ref.Kind = ptr[gatewayv1.Group]("inference.networking.k8s.io"), ptr[gatewayv1.Kind]("InferencePool")
		ref.Name, ref.Port = gatewayv1.ObjectName(fmt.Sprint("pool-", b)), nil
	}
	r.Spec.Rules = []gatewayv1.HTTPRouteRule{{
		Matches: []gatewayv1.HTTPRouteMatch{
			{Path: &gatewayv1.HTTPPathMatch{Type: ptr(gatewayv1.PathMatchPathPrefix), Value: ptr("/v1")}},
		},
		Filters: []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterResponseHeaderModifier,
			ResponseHeaderModifier: &gatewayv1.HTTPHeaderFilter{
				Set: []gatewayv1.HTTPHeader{{Name: RevisionHeader, Value: fmt.Sprint(revision)}},
			}}},
		BackendRefs: []gatewayv1.HTTPBackendRef{ref},
	}}
	return r
}

func (w *World) pooled(b int) bool { return b%2 == 1 && !w.NoPools }

func address(b, e int) string { return fmt.Sprintf("127.%d.%d.%d", 100+b/250, b%250, 1+e) }

// Service returns backend b, which must be a Service. turn selects its first endpoint's address.
func (w *World) Service(b, turn int) (*corev1.Service, *discoveryv1.EndpointSlice) {
	s := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: meta("svc-%d", b)}
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
	slice := &discoveryv1.EndpointSlice{TypeMeta: metav1.TypeMeta{
		APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice",
	},
		ObjectMeta: meta("svc-%d", b), AddressType: discoveryv1.AddressTypeIPv4}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: s.Name}
	slice.Ports = []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr[int32](8000)}}
	for e := range w.Endpoints {
		a := address(b, e)
		if e == 0 {
			a = address(b, 100+turn%100)
		}
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return s, slice
}

func (w *World) pool(b int) (*inferencev1.InferencePool, *v1alpha1.ModelServers) {
	p := &inferencev1.InferencePool{
		TypeMeta:   metav1.TypeMeta{APIVersion: "inference.networking.k8s.io/v1", Kind: "InferencePool"},
		ObjectMeta: meta("pool-%d", b),
	}
	p.Spec.Selector.MatchLabels = map[inferencev1.LabelKey]inferencev1.LabelValue{"app": inferencev1.LabelValue(p.Name)}
	p.Spec.TargetPorts = []inferencev1.Port{{Number: 8000}}
	m := &v1alpha1.ModelServers{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.Group + "/" + v1alpha1.Version, Kind: "ModelServers"},
		ObjectMeta: meta("pool-%d", b),
	}
	m.Labels = map[string]string{"app": p.Name}
	for e := range w.Endpoints {
		m.Spec.Servers = append(m.Spec.Servers, v1alpha1.ModelServer{Address: address(b, e)})
	}
	return p, m
}

// Ops returns the store operations that add all objects.
func (w *World) Ops() []store.Op {
	ops := []store.Op{store.Gateways.Put(w.GatewayObject())}
	for l := range w.Listeners {
		ops = append(ops, store.Secrets.Put(w.SecretObject(l)))
	}
	for b := range w.Backends {
		if w.pooled(b) {
			p, m := w.pool(b)
			ops = append(ops, store.InferencePools.Put(p), store.ModelServers.Put(m))
			continue
		}
		s, slice := w.Service(b, 0)
		ops = append(ops, store.Services.Put(s), store.EndpointSlices.Put(slice))
	}
	for i := range w.Hosts {
		ops = append(ops, store.HTTPRoutes.Put(w.Route(i, 0)))
	}
	return ops
}

const perFile = 100

// RouteFile returns the name of route i's file.
func (w *World) RouteFile(i int) string { return fmt.Sprintf("routes-%03d.yaml", i/perFile) }

// WriteFiles writes all objects to a folder, 100 backends or routes in a file.
func (w *World) WriteFiles(dir string) error {
	objects := []any{w.GatewayObject()}
	for l := range w.Listeners {
		objects = append(objects, w.SecretObject(l))
	}
	if err := w.save(dir, "gateway.yaml", objects...); err != nil {
		return err
	}
	for from := 0; from < w.Backends; from += perFile {
		objects = nil
		for b := from; b < min(from+perFile, w.Backends); b++ {
			if w.pooled(b) {
				p, m := w.pool(b)
				objects = append(objects, p, m)
				continue
			}
			s, slice := w.Service(b, 0)
			objects = append(objects, s, slice)
		}
		if err := w.save(dir, fmt.Sprintf("backends-%03d.yaml", from/perFile), objects...); err != nil {
			return err
		}
	}
	for from := 0; from < w.Hosts; from += perFile {
		if err := errors.Join(w.StageRoutes(dir, from, -1, 0), Commit(dir, w.RouteFile(from))); err != nil {
			return err
		}
	}
	return nil
}

// Address returns the address of Service 0's endpoint e at turn 0.
func (w *World) Address(e int) string {
	if e == 0 {
		return address(0, 100)
	}
	return address(0, e)
}

// StageRoutes writes route i's file under a temporary name. Route changed has the revision, others
// 0.
func (w *World) StageRoutes(dir string, i, changed, revision int) error {
	var objects []any
	from := i / perFile * perFile
	for j := from; j < min(from+perFile, w.Hosts); j++ {
		if j == changed {
			objects = append(objects, w.Route(j, revision))
		} else {
			objects = append(objects, w.Route(j, 0))
		}
	}
	return w.write(dir, w.RouteFile(i)+"~", objects...)
}

func (w *World) save(dir, name string, objects ...any) error {
	if err := w.write(dir, name+"~", objects...); err != nil {
		return err
	}
	return Commit(dir, name)
}

// Commit renames a file of StageRoutes to its name.
func Commit(dir, name string) error {
	return os.Rename(filepath.Join(dir, name+"~"), filepath.Join(dir, name))
}

// write writes objects without status and creationTimestamp.
func (w *World) write(dir, name string, objects ...any) error {
	var text bytes.Buffer
	for _, o := range objects {
		raw, err := json.Marshal(o)
		if err != nil {
			return err
		}
		var fields map[string]any
		if err := json.Unmarshal(raw, &fields); err != nil {
			return err
		}
		delete(fields, "status")
		delete(fields["metadata"].(map[string]any), "creationTimestamp")
		doc, err := yaml.Marshal(fields)
		if err != nil {
			return err
		}
		text.WriteString("---\n")
		text.Write(doc)
	}
	return os.WriteFile(filepath.Join(dir, name), text.Bytes(), 0o600)
}
