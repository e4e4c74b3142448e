package inference

// exporterFixes has the fixes for the entry of an exporting cluster. If a member of the cluster set
// exports the pool, the fix is in that cluster, because no object here has the fields.
type exporterFixes struct {
	member  bool
	cluster string
}

const givenAddresses = " addresses (IP addresses, or host names that resolve) and ports"

func (f exporterFixes) gatewayAddresses() string {
	if !f.member {
		return "give parents[].service" + givenAddresses
	}
	return "in cluster " + f.cluster + ", give the Gateways addresses that resolve here and that the ClusterSet here " +
		"allows (--members-address, spec.peerListener.address of the ClusterSet there, or the Gateways' own)"
}

func (f exporterFixes) gatewayTLS() string {
	if !f.member {
		return "set appProtocol: https on the service's port"
	}
	return "write spec.peerListener in the ClusterSet of cluster " + f.cluster
}

func (f exporterFixes) pickerAddresses() string {
	if !f.member {
		return "give service" + givenAddresses
	}
	return "in cluster " + f.cluster + ", give the picker an address that resolves here and that the ClusterSet here " +
		"allows (--picker, or the Service of endpointPickerRef)"
}

func (f exporterFixes) pickerTLS() string {
	if !f.member {
		return "leave appProtocol: kubernetes.io/h2c out of the service's port"
	}
	return "in cluster " + f.cluster + ", for Penstock's own picker start penstock with --xds-cert, --xds-key and " +
		"--xds-client-ca, and write spec.peerListener in the ClusterSet; for a picker with a Service of its " +
		"own, leave " +
		"appProtocol: kubernetes.io/h2c out of the Service's port"
}
