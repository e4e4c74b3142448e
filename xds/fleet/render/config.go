package render

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/xds/bootstrap"
)

// Where a proxy's files are in its container.
const (
	configDir     = "/etc/penstock"             // the ConfigMap
	tokenDir      = "/var/run/secrets/penstock" // the projected token
	runDir        = "/run/penstock"             // the admin interface's socket
	toolDir       = "/opt/penstock"             // the program that drains
	adminSocket   = runDir + "/admin.sock"      // reachable from inside the pod's container only
	bootstrapFile = "bootstrap.yaml"            // keys of the ConfigMap
	caFile        = "ca.crt"                    //
	defaultDrain  = 600                         // seconds
	lifetime      = int64(3600)                 // of a token, in seconds; the kubelet replaces it at four fifths
)

// ReadyPort of a pod answers the kubelet. No listener can have it.
const ReadyPort = 19003

// Audience is that of the tokens by which proxies prove who they are.
const Audience = "penstock.dev"

func (b *builder) serviceAccount() *corev1.ServiceAccount {
	no := false // Envoy has no business with the API server
	return &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: b.meta(), AutomountServiceAccountToken: &no,
	}
}

// leastMemory is what an Envoy's memory must not be limited below: its heap takes 10 MiB with nothing configured, and near its
// limit it refuses whatever it is asked.
var leastMemory = resource.MustParse("64Mi")

// memory checks what admission cannot, when an EnvoyFleet is older than the rule in its CRD.
func (b *builder) memory() error {
	limit, ok := or(b.Spec.Resources, corev1.ResourceRequirements{}).Limits[corev1.ResourceMemory]
	if !ok || limit.Cmp(leastMemory) >= 0 {
		return nil
	}
	return &Mistake{"spec.resources.limits.memory", limit.String() + " is too little: Envoy would refuse every request", "write " + leastMemory.String() + " or more"}
}

// bootstrap is what Envoy starts with. Its node's id is the pod's name, which only the command line knows.
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
	if r := b.Spec.Resources; r != nil {
		if limit, ok := r.Limits[corev1.ResourceMemory]; ok {
			c.MaxHeapBytes = uint64(limit.Value()) / 10 * 9 // the rest is stacks, and what the heap's keeper holds back
		}
	}
	if b.Spec.Bootstrap != nil {
		c.Extra = b.Spec.Bootstrap.Raw
	}
	return c
}

func (b *builder) drainSeconds() int32 { return or(b.Spec.DrainSeconds, defaultDrain) }

// configMap holds the files of configDir; hash is of those that Envoy reads at its start only.
func (b *builder) configMap() (config *corev1.ConfigMap, hash string, err error) {
	c := b.bootstrap()
	text, err := bootstrap.YAML(c)
	if err != nil {
		if len(c.Extra) > 0 {
			c.Extra = nil
			if _, other := bootstrap.YAML(c); other == nil {
				return nil, "", &Mistake{"spec.bootstrap", err.Error(), "write fields of Envoy's bootstrap (envoy.config.bootstrap.v3.Bootstrap)"}
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
