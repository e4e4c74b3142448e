package inferenceapi

import (
	"fmt"
	"sync"

	"github.com/penstock-project/penstock/manifests/limits"
)

// MaxEntry is the maximum JSON size of an exporting cluster without its endpoints, in bytes. An API
// server accepts objects of 1.5 MB, and an import may have 64 clusters.
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

// Violation returns the reason why an API server would reject an import with this exporting
// cluster, or nil. Endpoints are not checked, because Penstock never writes them to an API server.
// The result size is an upper bound of the JSON form, in bytes.
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
