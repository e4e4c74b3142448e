package hub

import (
	"fmt"
	"slices"
	"strings"

	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// needed skips InferencePools without an export annotation and without a hub's condition, because a
// cluster may have any number of them.
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
	return slices.ContainsFunc(pool.Status.Parents, byHub)
}

// reportLeftOut reports the kinds of which objects exceed the memory limit, when these kinds
// change. The numbers of objects change too often.
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
		c.hub.note(c.name+partly, c.mistake("its API server has more objects than the hub keeps of one member; "+
			"left out, as if they did not exist: "+strings.Join(texts, ", "),
			"remove objects there, or raise --memory-limit of the hub (hub.resources.limits.memory of the chart)"))
	}
}

const namedUnfit = 3

func (c *cluster) reportUnfit() {
	first, more := c.hub.out.Unfit(c.name, namedUnfit)
	c.mu.Lock()
	for _, r := range c.reading {
		for _, f := range r.Findings {
			switch {
			case f.Owner == (report.Ref{}):
			case len(first) < namedUnfit:
				first = append(first, bounded(f.Problem))
			default:
				more++
			}
		}
	}
	c.mu.Unlock()
	if len(first) == 0 {
		c.hub.note(c.name+unfit, nil)
		return
	}
	if more > 0 {
		first = append(first, fmt.Sprintf("and %d more", more))
	}
	c.hub.note(c.name+unfit, c.mistake("no import may have some of what it exports, so the others do not import it: "+
		strings.Join(first, "; "), "correct these objects there: an API server that validates objects rejects them"))
}
