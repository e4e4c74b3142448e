package inferenceapi

import (
	"fmt"
	"sync"

	"github.com/penstock-project/penstock/manifests/limits"
)

// MaxEntry is the largest JSON form of an exporting cluster of an import, in bytes, without its
// endpoints: an object of an API server has room for 1.5 MB, and an import may have 64 of them.
const MaxEntry = 32 << 10

// entrySchema is the schema of status.clusters of an InferencePoolImport.
var entrySchema = sync.OnceValues(func() (*limits.Schema, error) {
	return limits.New(Group, "inferencepoolimports", "status.clusters.items", ImportedCluster{}, limits.Rules{
		"self.routingMode != 'EndpointMode' || has(self.targetPortNumber) || has(self.targetPorts)": func(v any) bool {
			c, _ := v.(*ImportedCluster)
			return c.RoutingMode != EndpointMode || c.TargetPortNumber != 0 || len(c.TargetPorts) > 0
		},
	})
})

// Violation is why an API server would reject an import with this exporting cluster, whatever else
// the import has; nil: it would not. Endpoints are not checked: no API server gets any from
// Penstock. size is the number of bytes of the JSON form, at most.
func (c *ImportedCluster) Violation() (size int, bad *limits.Violation) {
	schema, err := entrySchema()
	if err != nil {
		return 0, &limits.Violation{Problem: fmt.Sprintf("cannot be checked: %.120v", err)}
	}
	without := *c
	without.Endpoints = nil
	size, bad = schema.Check(&without)
	if bad == nil && size > MaxEntry {
		bad = &limits.Violation{Problem: fmt.Sprintf("has %d bytes, at most %d", size, MaxEntry)}
	}
	return size, bad
}
