package federation

import (
	"math"
	"testing"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// A message with a stamp above registry.MaxStamp is an error. No later stamp could replace this
// stamp, so the member's later updates would have no effect.
func TestRecord_StampThatNoLaterOneReplacesIsAnError(t *testing.T) {
	pool := objectid.Pool{Namespace: "default", Name: "chat"}
	wire := func(value any) []byte {
		t.Helper()
		raw, err := encoding.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	entry := inferenceapi.ImportedCluster{RoutingMode: inferenceapi.EndpointMode}
	endpoints := []inferenceapi.ImportedEndpoint{{Address: "10.0.0.1"}}
	for n, good := range map[uint64]bool{
		registry.MaxStamp: true, registry.MaxStamp + 1: false, 1 << 63: false, math.MaxUint64: false,
	} {
		for _, at := range [][2]uint64{{n, 1}, {1, n}} {
			_, state := decodeCluster(wire(cluster{UID: "u", Epoch: at[0], Sequence: at[1]}), "")
			_, _, whole := decodeRecord(pool, wire(record{Epoch: at[0], Sequence: at[1], Entry: entry}))
			parts := &assemblies{pools: map[objectid.Pool]*assembly{}, share: 1 << 20}
			for key, value := range map[string]any{
				pool.String():             record{Epoch: 1, Sequence: 1, Entry: entry, Parts: 1},
				partKey(pool.String(), 0): part{Epoch: at[0], Sequence: at[1], Endpoints: endpoints},
			} {
				if _, _, err := parts.receive(key, wire(value)); err != nil {
					t.Fatalf("%s: %v", key, err)
				}
			}
			_, assembled := parts.export(pool)
			for what, err := range map[string]error{"state": state, "record": whole, "part": assembled} {
				if (err == nil) != good {
					t.Errorf("stamp %d.%d of a %s: got %v, want it valid: %t", at[0], at[1], what, err, good)
				}
			}
		}
	}
}
