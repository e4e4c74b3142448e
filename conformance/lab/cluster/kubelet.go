//go:build linux

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

const most = 2000

func (c *Cluster) kubelet() (program, error) {
	logs := filepath.Join(c.Dir, "pods")
	config := map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"containerRuntimeEndpoint": "unix://" + c.private("cri.sock"),
		"address":                  c.Plan.Node().String(),
		"healthzBindAddress":       "127.0.0.1",
		"tlsCertFile":              c.private("node.crt"),
		"tlsPrivateKeyFile":        c.private("node.key"),
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": c.private("ca.crt")},
		},
		"authorization": map[string]any{"mode": "Webhook"},
		"clusterDNS":    []string{c.Plan.DNSService().String()},
		"clusterDomain": "cluster.local",
		"resolvConf":    "", // the cluster's DNS resolves external names
		"podLogsDir":    logs,
		"maxPods":       most,
		// The kubelet creates no control groups, and evicts no pods for lack of memory or disk
		// space.
		"failCgroupV1":                  false,
		"cgroupsPerQOS":                 false,
		"enforceNodeAllocatable":        []string{},
		"failSwapOn":                    false,
		"localStorageCapacityIsolation": false,
		"evictionHard": map[string]string{
			"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%",
			"imagefs.inodesFree": "0%",
		},
		"imageGCHighThresholdPercent": 100,
		"oomScoreAdj":                 0,
		"featureGates":                map[string]bool{"KubeletInUserNamespace": true},
		"serializeImagePulls":         false,
		"registryPullQPS":             0,
		"kubeAPIQPS":                  500,
		"kubeAPIBurst":                1000,
		"eventRecordQPS":              0,
		"configMapAndSecretChangeDetectionStrategy": "Watch",
		"syncFrequency":                "10s", // a changed ConfigMap reaches its volumes within about this time
		"volumePluginDir":              c.private("kubelet/plugins"),
		"enableControllerAttachDetach": false,
	}
	raw, err := yaml.Marshal(config)
	if err != nil {
		return program{}, fmt.Errorf("kubelet: %w", err)
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return program{}, fmt.Errorf("kubelet: %w", err)
	}
	if err := os.WriteFile(c.private("kubelet.yaml"), raw, 0o600); err != nil {
		return program{}, fmt.Errorf("kubelet: %w", err)
	}
	return c.kubernetes("kubelet",
		"--config="+c.private("kubelet.yaml"),
		"--kubeconfig="+c.private("kubelet.kubeconfig"),
		"--root-dir="+c.private("kubelet"),
		"--cert-dir="+c.private("kubelet/pki"),
		"--hostname-override="+nodeName,
		"--node-ip="+c.Plan.Node().String(),
	), nil
}

func schedulable(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(node.Spec.Taints) > 0 {
		return fmt.Errorf("the node has the taint %s", node.Spec.Taints[0].Key)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("the node is not ready")
}
