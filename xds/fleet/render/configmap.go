package render

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/bootstrap"
)

const (
	configDir     = "/etc/penstock"
	tokenDir      = "/var/run/secrets/penstock"
	runDir        = "/run/penstock"
	toolDir       = "/opt/penstock"
	adminSocket   = runDir + "/admin.sock" // inside the container
	bootstrapFile = "bootstrap.yaml"
	caFile        = "ca.crt"
	defaultDrain  = 600         // seconds
	lifetime      = int64(3600) // seconds; the kubelet renews a token at four fifths
)

// ReadyPort is a pod's port for readiness probes. Listeners cannot use it.
const ReadyPort = 19003

// An idle Envoy has a heap of 10 MiB, and answers 503 near its memory limit.
var leastMemory = resource.MustParse("64Mi")

func (b *builder) memory() error {
	limit, ok := or(b.Spec.Resources, corev1.ResourceRequirements{}).Limits[corev1.ResourceMemory]
	if !ok || limit.Cmp(leastMemory) >= 0 {
		return nil
	}
	return &InvalidField{"spec.resources.limits.memory",
		limit.String() + " is too little: Envoy would answer every request with 503",
		"write " + leastMemory.String() + " or more"}
}

// Problem returns the first invalid field, or nil.
func Problem(spec *v1alpha1.EnvoyFleetSpec) *InvalidField {
	if spec.Mode == v1alpha1.FleetExternal {
		if spec.External == nil {
			return nil
		}
		for _, a := range spec.External.Addresses {
			if bad := ExternalAddress(a); bad != nil {
				return bad
			}
		}
		return nil
	}
	b := &builder{Settings: Settings{ADS: []string{"penstock:18000"}, ServerName: "penstock"},
		Fleet: Fleet{Spec: spec, Gateway: &gatewayv1.Gateway{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gateway"}}}}
	err := b.memory()
	if err == nil && spec.Bootstrap != nil {
		_, _, err = b.configMap()
	}
	var bad *InvalidField
	errors.As(err, &bad)
	return bad
}

// ExternalAddress returns the problem of an address, or nil.
func ExternalAddress(a string) *InvalidField {
	if report.AddressType(a) != "" {
		return nil
	}
	return &InvalidField{Field: "spec.external.addresses",
		Problem: fmt.Sprintf("%q is neither an IP address nor a host name", a),
		Fix:     "write one such as 192.0.2.1 or edge.example.com"}
}

func (b *builder) bootstrap() bootstrap.Config {
	c := bootstrap.Config{
		Gateway:     b.gateway(),
		ADS:         b.ADS,
		TLS:         &bootstrap.TLS{CA: configDir + "/" + caFile, ServerName: b.ServerName},
		Token:       tokenDir + "/token",
		Secrets:     configDir,
		Ready:       fmt.Sprintf("0.0.0.0:%d", ReadyPort),
		Admin:       "unix:" + adminSocket,
		DrainTime:   time.Duration(b.drainSeconds()) * time.Second,
		Concurrency: int(or(b.Spec.Concurrency, 0)),
	}
	if limit, ok := b.resources().Limits[corev1.ResourceMemory]; ok {
		c.MaxHeapBytes = uint64(limit.Value()) / 10 * 9
	}
	if b.Spec.Bootstrap != nil {
		c.Extra = b.Spec.Bootstrap.Raw
	}
	return c
}

func (b *builder) drainSeconds() int32 { return or(b.Spec.DrainSeconds, defaultDrain) }

func (b *builder) configMap() (config *corev1.ConfigMap, hash string, err error) {
	c := b.bootstrap()
	text, err := bootstrap.YAML(c)
	if err != nil {
		if len(c.Extra) > 0 {
			c.Extra = nil
			if _, other := bootstrap.YAML(c); other == nil {
				return nil, "",
					&InvalidField{"spec.bootstrap", err.Error(),
						"write fields of Envoy's bootstrap (envoy.config.bootstrap.v3.Bootstrap)"}
			}
		}
		return nil, "", fmt.Errorf("bootstrap of Gateway %s: %w", b.gateway(), err)
	}
	files, err := bootstrap.SecretFiles(c)
	if err != nil {
		return nil, "", fmt.Errorf("bootstrap of Gateway %s: %w", b.gateway(), err)
	}
	config = &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: b.meta(),
		Data:       map[string]string{bootstrapFile: string(text), caFile: string(b.CA)},
	}
	for name, content := range files {
		config.Data[name] = string(content)
	}
	return config, hashOf(text), nil
}
