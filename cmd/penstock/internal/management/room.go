package management

import (
	"strings"

	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"

	"github.com/penstock-project/penstock/cmd/penstock/internal/clusterset"
	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// needed reports whether the hub reads an object of a member. A pool without an annotation about
// exports, and without a condition of a hub, is not read: a cluster may have any number of them.
func needed(obj store.Object) bool {
	pool, ok := obj.(*inferencev1.InferencePool)
	if !ok {
		return true
	}
	for name := range pool.Annotations {
		if strings.HasPrefix(name, inferenceapi.Group+"/") || strings.HasPrefix(name, v1alpha1.Group+"/") {
			return true
		}
	}
	for _, p := range pool.Status.Parents {
		if p.ControllerName == clusterset.HubController {
			return true
		}
	}
	return false
}

// reportLeftOut notes of which kinds of the member objects are left out. The numbers are those of
// the moment when a kind is first left out: a member that changes all the time is not logged all
// the time.
func (c *cluster) reportLeftOut(share *kube.Share) {
	var names, texts []string
	for _, l := range share.LeftOut() {
		names, texts = append(names, l.Name), append(texts, l.String())
	}
	kinds := strings.Join(names, ",")
	c.mu.Lock()
	same := c.leftOut == kinds
	c.leftOut = kinds
	c.mu.Unlock()
	switch {
	case same:
	case kinds == "":
		c.hub.note(c.name+partly, nil)
	default:
		c.hub.note(c.name+partly, &mistake{
			Field: "spec.members[" + c.name + "]",
			Problem: "its API server has more objects than the hub keeps of one member; " +
				"left out, as if they did not exist: " + strings.Join(texts, ", "),
			Fix: "remove objects there, or raise --memory-limit of the hub (hub.resources.limits.memory of the chart)",
		})
	}
}
