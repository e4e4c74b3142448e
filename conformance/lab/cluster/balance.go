//go:build linux

package cluster

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/penstock-project/penstock/conformance/lab/balancer"
)

func (c *Cluster) balance(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	return balancer.New(balancer.Config{Client: client, Range: c.Plan.LoadBalancers(), Log: c.Log}).Run(ctx)
}
