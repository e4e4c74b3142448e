package leader_test

import (
	"context"
	"log/slog"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/discovery/kube/leader"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestLease_IsAcquiredFromTheAPIServer(t *testing.T) {
	api := kubetest.New(t)
	e, err := leader.New(leader.Config{REST: api.Config(), Namespace: "penstock-system", Name: "penstock",
		Identity: "pod-1", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	kubetest.Run(t, func(ctx context.Context) error {
		return e.Run(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
	})
	poll.Until(t, "the only process leads", e.Leading)
	if e.LastContact().IsZero() {
		t.Error("a process that leads has had no contact")
	}
	spec, _ := api.Get("coordination.k8s.io", "leases", "penstock-system/penstock")["spec"].(kubetest.Object)
	if spec["holderIdentity"] != "pod-1" || spec["leaseDurationSeconds"] == nil {
		t.Errorf("the Lease has %v, want the holder pod-1 and a duration", spec)
	}
}

func TestLease_NeedsAllOfItsConfig(t *testing.T) {
	whole := leader.Config{REST: &rest.Config{}, Namespace: "a", Name: "b", Identity: "c"}
	for name, remove := range map[string]func(*leader.Config){
		"REST": func(c *leader.Config) { c.REST = nil }, "Namespace": func(c *leader.Config) { c.Namespace = "" },
		"Name": func(c *leader.Config) { c.Name = "" }, "Identity": func(c *leader.Config) { c.Identity = "" },
	} {
		c := whole
		remove(&c)
		if _, err := leader.New(c); err == nil {
			t.Errorf("no error without %s, want one", name)
		}
	}
}
