package app

import (
	"testing"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestPickerKey_RequestInFlightIsPickedForAfterItsRouteIsGone(t *testing.T) {
	t.Parallel()
	api := smallCluster(t)
	p := inCluster(t, api, "one")
	cluster := resource.Ref{Type: resource.Cluster, Name: model.PoolCluster("default", "chat").String()}
	poll.Until(t, "the route is served", func() bool { return p.cache.Resource("default/gw", cluster) != nil })
	if allowed, _ := p.access.Allowed("default/gw", objectid.MustParseTarget("default/chat")); !allowed {
		t.Error("the Gateway may not pick from the pool of its route")
	}
	_, changed := p.access.Allowed("default/gw", objectid.MustParseTarget("default/other"))
	api.Delete("httproutes", api.Get("gateway.networking.k8s.io", "httproutes", "default/chat"))
	poll.Until(t, "the route is gone", func() bool { return p.cache.Resource("default/gw", cluster) == nil })
	if allowed, _ := p.access.Allowed("default/gw", objectid.MustParseTarget("default/chat")); !allowed {
		t.Error("the Gateway may not pick from the pool any more, within the drain time")
	}
	poll.Until(t, "the change is reported to a call that waits", func() bool {
		select {
		case <-changed:
			return true
		default:
			return false
		}
	})
}
