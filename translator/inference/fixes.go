package inference

import (
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// exporterFixes are what makes an exporting cluster reachable, and its servers speak TLS.
type exporterFixes struct{ gatewayAddresses, gatewayTLS, pickerAddresses, pickerTLS string }

// fixesAt returns the fixes for an exporting cluster. What a member of the cluster set exports is corrected there: nothing here has the fields of
// its entry.
func fixesAt(r store.Reader, imp report.Ref, cluster string) exporterFixes {
	if _, member := store.Offers.Get(r, objectid.Join(imp.Namespace, store.OfferName(imp.Name, cluster))); !member {
		const addresses = " addresses (IP addresses, or host names that resolve) and ports"
		return exporterFixes{
			gatewayAddresses: "give parents[].service" + addresses, gatewayTLS: "set appProtocol: https on the service's port",
			pickerAddresses: "give service" + addresses, pickerTLS: "leave appProtocol: kubernetes.io/h2c out of the service's port",
		}
	}
	return exporterFixes{
		gatewayAddresses: "in cluster " + cluster + ", give the Gateways addresses that resolve here and that the ClusterSet here allows (--members-address, spec.peerListener.address of the ClusterSet there, or the Gateways' own)",
		gatewayTLS:       "write spec.peerListener in the ClusterSet of cluster " + cluster,
		pickerAddresses:  "in cluster " + cluster + ", give the picker an address that resolves here and that the ClusterSet here allows (--picker, or the Service of endpointPickerRef)",
		pickerTLS: "in cluster " + cluster + ", for Penstock's own picker start penstock with --xds-cert, --xds-key and --xds-client-ca, and write spec.peerListener in the ClusterSet; for a picker with a Service" +
			" of its own, leave appProtocol: kubernetes.io/h2c out of the Service's port",
	}
}
