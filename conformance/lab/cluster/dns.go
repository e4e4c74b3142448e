//go:build linux

package cluster

import (
	"context"
	_ "embed"
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

//go:embed dns.yaml
var dnsObjects string

func (c *Cluster) dns(ctx context.Context, config *rest.Config) error {
	objects := objects{}
	if err := objects.parse("dns.yaml",
		[]byte(strings.ReplaceAll(dnsObjects, "CLUSTER_DNS", c.Plan.DNSService().String()))); err != nil {
		return err
	}
	return objects.apply(ctx, config)
}

func resolves(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	d, err := client.AppsV1().Deployments("kube-system").Get(ctx, "coredns", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return errors.New("the cluster's DNS is not ready")
}
