package envoy

import (
	"fmt"
	"hash/fnv"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
)

// A release that encodes clusters of external pickers differently must rename the clusters
// (version). Otherwise Envoy would end the requests in flight.
func TestCluster_PickersEncodingHasAVersion(t *testing.T) {
	const version, want = 2, "51eb2293bc81c3df"
	hash := fnv.New64a()
	for _, id := range []model.ClusterID{model.PickerCluster("ns", "epp", 9002),
		model.ImportPickerCluster("ns", "far", "east")} {
		for _, tls := range []*model.UpstreamTLS{nil, {Insecure: true}, {SNI: "a", Trust: "t", SANs: []string{"a"}},
			{SNI: "a", Trust: "t", URIs: []string{"spiffe://a"}, Certificate: "c"}} {
			for _, serves := range []bool{false, true} {
				c, err := Cluster(&model.Cluster{Name: id, Protocol: model.GRPC, TLS: tls,
					Cleartext: tls != nil && serves, HealthService: "health", ServesHealth: serves})
				if err != nil {
					t.Fatal(err)
				}
				_, _ = hash.Write(c.Body())
			}
		}
	}
	if got := fmt.Sprintf("%x", hash.Sum64()); got != want || model.PickerEncoding != version {
		t.Errorf(
			"the clusters of external pickers have the hash %s in version %d of their encoding, want %s in version "+
				"%d: increase model.PickerEncoding, and write both here", got, model.PickerEncoding, want, version)
	}
}
