package inference

import (
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/translator/services"
)

// pickerHealth is the gRPC service that health checks name. A picker that is not the leader of its
// replicas answers NOT_SERVING for it.
const pickerHealth = "envoy.service.ext_proc.v3.ExternalProcessor"

// PickerCluster returns the Envoy cluster of an external picker.
func PickerCluster(r store.Reader, id model.ClusterID) (*model.Cluster, bool) {
	if id.Kind == model.ImportPickerKind {
		obj, i, ok := ImportedCluster(r, id)
		if !ok || obj.Status.Clusters[i].EndpointPicker == nil {
			return nil, false
		}
		c, owner := &obj.Status.Clusters[i], store.InferencePoolImports.Ref(obj)
		return importPicker(id, owner, c, Dialable(r, obj, c), gatewayapi.BackendPolicy(r, id)), true
	}
	svc, ok := services.Of(r, id)
	if !ok {
		return nil, false
	}
	c := pickerCluster(id)
	c.Owners = []report.Ref{svc.Ref}
	port := services.Port(svc.Service, id.Port, services.Transport(id))
	if port == nil {
		c.HealthService, c.Protocol = "", model.HTTP1
		return c, true
	}
	if !Cleartext(port.AppProtocol) {
		c.TLS = &model.UpstreamTLS{Insecure: true}
	}
	gatewayapi.BackendPolicy(r, id).Secure(c)
	return c, true
}

func pickerCluster(id model.ClusterID) *model.Cluster {
	return &model.Cluster{
		Name: id, Protocol: model.GRPC, HealthService: pickerHealth, ServesHealth: id.Variant == model.HealthVariant,
	}
}

func importPicker(
	id model.ClusterID, owner report.Ref, cluster *inferenceapi.ImportedCluster, at []model.RemoteAddress,
	tls *gatewayapi.BackendTLS,
) *model.Cluster {
	c := pickerCluster(id)
	c.Owners = []report.Ref{owner}
	if cluster.EndpointPicker.Peer {
		c.TLS = PeerTLS(id.Member, model.PeerAuthority(owner.Namespace, owner.Name, id.Member))
		return c
	}
	var some bool
	if some, c.Cleartext = RemoteTLS(at); some {
		c.TLS = &model.UpstreamTLS{Insecure: true}
		tls.Secure(c)
	}
	return c
}

func configured(c *model.Cluster) model.ClusterID {
	id, config := c.Name, *c
	config.Name, config.TLS, config.Owners, config.ServesHealth = model.ClusterID{}, nil, nil, false
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%d %+v", model.PickerEncoding, config)
	if c.TLS != nil {
		fmt.Fprintf(hash, "%+v", *c.TLS)
	}
	sum := hash.Sum32()
	id.Config = max(1, uint16(sum)^uint16(sum>>16))
	return id
}

// ImportedCluster returns the import that lists an exporting cluster, and the index in
// status.clusters.
func ImportedCluster(r store.Reader, id model.ClusterID) (imp *inferenceapi.InferencePoolImport, i int, ok bool) {
	obj, ok := gatewayapi.Imported(r, id.Key())
	if !ok {
		return nil, 0, false
	}
	i = slices.IndexFunc(obj.Status.Clusters, func(c inferenceapi.ImportedCluster) bool { return c.Name == id.Member })
	return obj, i, i >= 0
}

// RemoteTLS reports whether some addresses use TLS, and whether other addresses do not.
func RemoteTLS(addrs []model.RemoteAddress) (some, mixed bool) {
	cleartext := slices.ContainsFunc(addrs, func(a model.RemoteAddress) bool { return a.Cleartext })
	some = slices.ContainsFunc(addrs, func(a model.RemoteAddress) bool { return !a.Cleartext })
	return some, some && cleartext
}

// PeerTLS returns the TLS configuration for connections to another cluster of the cluster set. It
// verifies the SPIFFE ID of that cluster's Gateways. name is the server name of one of its pools.
func PeerTLS(member, name string) *model.UpstreamTLS {
	return &model.UpstreamTLS{SNI: name, Trust: model.MemberTrust(member), URIs: []string{model.GatewayURI(member)},
		Certificate: model.MemberCertificate}
}
