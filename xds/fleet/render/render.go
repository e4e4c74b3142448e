package render

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Settings are common to all fleets.
type Settings struct {
	// ADS are the control plane's addresses, "host:port", at least one.
	ADS []string
	// ServerName is the name in the control plane's certificate. Default: the first address's host.
	ServerName string
	// CA has the certificates that verify the control plane, in PEM.
	CA []byte
	// EnvoyImage is the default image.
	EnvoyImage string
	// PenstockImage has the drain program; its entry point is penstock.
	PenstockImage string
	// ExternalIPs are the ranges of external IPs that Gateways may request; empty: none allowed.
	ExternalIPs []netip.Prefix
}

// Fleet is the input for the proxies of one Gateway.
type Fleet struct {
	Gateway *gatewayv1.Gateway
	// Spec is the merged spec of the EnvoyFleets, in mode managed.
	Spec *v1alpha1.EnvoyFleetSpec
	// Ports are sorted, without duplicates.
	Ports []Port
	// Running is the number of replicas in the Deployment, or 0.
	Running int32
	// Open are the listener ports in the NetworkPolicy.
	Open []Socket
}

// Port is a port for clients or other clusters.
type Port struct {
	Number int32
	UDP    bool
	Name   string // prefix of the name in the Service: "http", "https", "tls", "tcp", "udp" or "peer"
}

func (p Port) Socket() Socket { return Socket{p.Number, p.UDP} }

// Compare orders ports by number, TCP first.
func (p Port) Compare(o Port) int {
	return cmp.Or(cmp.Compare(p.Number, o.Number),
		strings.Compare(string(p.Socket().Protocol()), string(o.Socket().Protocol())))
}

// Socket is a TCP or UDP port.
type Socket struct {
	Number int32
	UDP    bool
}

func (s Socket) Protocol() corev1.Protocol {
	if s.UDP {
		return corev1.ProtocolUDP
	}
	return corev1.ProtocolTCP
}

// InvalidField is an EnvoyFleet's field that cannot be rendered.
type InvalidField struct {
	Field   string // begins with spec
	Problem string
	Fix     string
}

func (m *InvalidField) Error() string { return m.Field + ": " + m.Problem }

// Object is an object to apply.
type Object interface {
	runtime.Object
	metav1.Object
}

// Labels that select objects and show their Gateway (GEP-1762).
const (
	LabelGateway   = "gateway.networking.k8s.io/gateway-name"
	LabelClass     = "gateway.networking.k8s.io/gateway-class-name"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelFleet has the fleet's name (see Name). Selectors use it.
	LabelFleet = "penstock.dev/fleet"
	ManagedBy  = "penstock"
)

// Name returns the name of all objects: the names of the Gateway and its class (GEP-1762), if
// necessary shortened with a hash.
func Name(gateway, class string) string { return label(gateway+"-"+class, true) }

// A label's value has at most 63 characters. If strict is set, the result is a valid Service name.
func label(text string, strict bool) string {
	const longest = 63
	safe := text
	if strict {
		safe = strings.ReplaceAll(safe, ".", "-")
		if safe[0] < 'a' || safe[0] > 'z' {
			safe = "gw-" + safe
		}
	}
	if safe == text && len(text) <= longest {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	hash := hex.EncodeToString(sum[:])[:8]
	if cut := longest - len(hash) - 1; len(safe) > cut {
		safe = strings.TrimRight(safe[:cut], "-._")
	}
	return safe + "-" + hash
}

// Objects returns the objects in the order in which to apply them. An error other than
// *InvalidField is a bug.
func Objects(s Settings, f Fleet) ([]Object, error) {
	b := builder{Settings: s, Fleet: f, name: Name(f.Gateway.Name, string(f.Gateway.Spec.GatewayClassName))}
	if err := b.memory(); err != nil {
		return nil, err
	}
	config, hash, err := b.configMap()
	if err != nil {
		return nil, err
	}
	out := []Object{b.serviceAccount(), config}
	if or(f.Spec.NetworkPolicy, v1alpha1.FleetNetworkPolicy{}).Mode != v1alpha1.NetworkPolicyNone {
		out = append(out, b.networkPolicy()) // before the pods
	}
	out = append(out, b.deployment(hash), b.budget())
	if len(f.Ports) > 0 {
		out = append(out, b.service())
	}
	if f.Spec.Autoscaling != nil {
		out = append(out, b.autoscaler())
	}
	return out, nil
}

type builder struct {
	Settings
	Fleet
	name string
}

func (b *builder) meta() metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{
		Name: b.name, Namespace: b.Gateway.Namespace, Labels: b.labels(nil), Annotations: b.annotations(nil),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: gatewayv1.GroupVersion.String(), Kind: "Gateway", Name: b.Gateway.Name, UID: b.Gateway.UID,
			Controller: &yes,
		}},
	}
}

func (b *builder) labels(more map[string]string) map[string]string {
	out := map[string]string{}
	if i := b.Gateway.Spec.Infrastructure; i != nil {
		for k, v := range i.Labels {
			out[string(k)] = string(v)
		}
	}
	maps.Copy(out, more)
	out[LabelGateway] = label(b.Gateway.Name, false)
	out[LabelClass] = label(string(b.Gateway.Spec.GatewayClassName), false)
	out[LabelManagedBy] = ManagedBy
	maps.Copy(out, b.selector())
	return out
}

func (b *builder) annotations(more map[string]string) map[string]string {
	out := map[string]string{}
	if i := b.Gateway.Spec.Infrastructure; i != nil {
		for k, v := range i.Annotations {
			out[string(k)] = string(v)
		}
	}
	maps.Copy(out, more)
	if len(out) == 0 {
		return nil
	}
	return out
}

func (b *builder) selector() map[string]string { return map[string]string{LabelFleet: b.name} }

func (b *builder) gateway() string { return objectid.Join(b.Gateway.Namespace, b.Gateway.Name) }

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func hashOf(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
