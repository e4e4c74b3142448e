package store

import (
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/deepcopy"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// Host holds the IP addresses of a host name that some object uses as an address.
// discovery/hostname writes it. The Host's name is the host name, in lower case.
type Host struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Addresses []string // IP addresses of the last successful lookup, sorted
	Error     string   // error of the newest lookup; empty if it succeeded
}

func (h *Host) DeepCopyObject() runtime.Object { return deepcopy.Of(h) }

// Invalid marks an object that is invalid in its file and has no last good version, so that
// references to it are not reported as missing. discovery/file writes it. Its name is InvalidName.
type Invalid struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

// InvalidName returns the name of an object's Invalid.
func InvalidName(kind, name string) string { return kind + " " + name }

func (i *Invalid) DeepCopyObject() runtime.Object { return deepcopy.Of(i) }

// Learned holds the endpoints of one exporting cluster of an import that the cluster's picker has
// named in its answers. All are in the allowed ranges. multicluster/learned writes it. Its name is
// LearnedName.
type Learned struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Endpoints []string // "ip:port", sorted
}

// LearnedName returns the name of a Learned.
func LearnedName(importName, cluster string) string { return importName + "." + cluster }

func (l *Learned) DeepCopyObject() runtime.Object { return deepcopy.Of(l) }

// Offer is the entry of one exporting cluster in an import. multicluster/imports writes it. Its
// name is OfferName. An Offer needs no InferencePoolImport: a route may name the import before the
// InferencePoolImport exists. If the InferencePoolImport has an entry of the same cluster, the
// Offer overrides the entry.
type Offer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Import  string
	Cluster inferenceapi.ImportedCluster
	// Allowed are the CIDRs in which the member may have pickers and gateways. Pods are the CIDRs
	// in which it may have model servers. Empty: all addresses that the AddressPolicy allows.
	Allowed, Pods []string
	// Cleartext means that requests to gateways of the member need no TLS.
	Cleartext bool
	// Local means that Cluster is this cluster. Requests then go to the InferencePool with the
	// import's name.
	Local bool
	// Since is when this cluster began to import the export, in microseconds since 1970. If a name
	// has two meanings, the meaning with the smaller Since is valid (gatewayapi.ImportNamed).
	Since int64
}

// OfferName returns the name of an Offer.
func OfferName(importName, cluster string) string { return importName + "." + cluster }

func (o *Offer) DeepCopyObject() runtime.Object { return deepcopy.Of(o) }

// Failback lists the clusters of an import that failed and have been ready again only for a short
// time. selection.policy Priority puts them last. multicluster/traffic/failback writes it. Its
// namespace and name are the import's.
type Failback struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Clusters []string // names of the clusters, sorted
}

func (f *Failback) DeepCopyObject() runtime.Object { return deepcopy.Of(f) }

// Dialect holds the results of probes of an external picker. picker/probe writes it. Its name is
// the name of the picker's Envoy cluster.
type Dialect struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Acknowledges bool // the picker only acknowledges bodies, although its protocol must send them back
	Health       bool // its health service reports whether this replica may be called
	Lost         bool // its process has just ended: connections were lost, and new connections fail
	Frozen       bool // its process has just frozen: it accepts requests but does not respond
}

func (d *Dialect) DeepCopyObject() runtime.Object { return deepcopy.Of(d) }

// Authority has the CA certificates and the key with which proxies call Penstock's services. cmd
// writes it. If these services use TLS, there is one Authority, named OwnAuthority.
type Authority struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	CA  []byte // CA certificates that proxies trust, in PEM
	Key string // root of the keys with which proxies call the picker (model.PickKey)
}

// OwnAuthority is the name of the only Authority.
const OwnAuthority = "own"

// OwnPickerConfig is the name of the EndpointPickerConfig that this process was started with. It
// has no namespace. Users cannot write an object with this name.
const OwnPickerConfig = "--config-file"

func (a *Authority) DeepCopyObject() runtime.Object { return deepcopy.Of(a) }

// Membership configures this cluster's Gateways as members of a cluster set. cmd writes it. There
// is one Membership, named OwnMembership, while there are a ClusterSet and a certificate.
type Membership struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Set     string // the ClusterSet's name
	Cluster string // this cluster's name, which is its trust domain
	// region and zone of this cluster; "": unknown
	Region, Zone string
	// Chain and Key are the certificate of this cluster's Gateways and its private key, in PEM. The
	// SPIFFE ID in the certificate is model.GatewayURI of Cluster.
	Chain, Key []byte
	// PeerPort is the port of the peer listener; 0: none.
	PeerPort uint16
	Members  []Member // the other clusters with certificates, sorted by name
	// Names are the names of all other clusters of the set, including clusters without
	// certificates, sorted; nil: a hub may add further clusters.
	Names []string
}

// Member is another cluster of the set.
type Member struct {
	Name   string // name of the cluster, and its SPIFFE trust domain
	Bundle []byte // CA certificates for IDs of the trust domain, in PEM
	// Identities are the parts of callers' identities that this cluster accepts from the member,
	// sorted.
	Identities []string
}

// OwnMembership is the name of the one Membership.
const OwnMembership = "own"

func (m *Membership) DeepCopyObject() runtime.Object { return deepcopy.Of(m) }

// Export marks an InferencePool that other clusters may use, or may still use until its drain time
// ends. cmd writes it. Its namespace and name are the pool's.
type Export struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Members []string // members that may use the pool, sorted
}

func (e *Export) DeepCopyObject() runtime.Object { return deepcopy.Of(e) }

// AddressPolicy determines the IP addresses that may become endpoints. cmd writes it before any
// other object. There is one AddressPolicy, named OwnAddressPolicy. Without it, no address in a
// user's object may become an endpoint.
type AddressPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Allowed, Denied []string // CIDRs of addresses; Denied overrides Allowed
	Loopback        bool     // loopback addresses may become endpoints
	ExternalName    bool     // Services of type ExternalName have endpoints
	// Shared means that the writers of objects do not trust each other, as on Kubernetes. Occupants
	// then have the addresses of Services. Own is the Service in front of Penstock's processes,
	// "namespace/name"; "": none.
	Shared bool
	Own    string
}

// OwnAddressPolicy is the name of the one AddressPolicy.
const OwnAddressPolicy = "own"

func (p *AddressPolicy) DeepCopyObject() runtime.Object { return deepcopy.Of(p) }

// ProcessorDefault is the external processor of pools whose PoolPolicy names none. cmd writes it
// before any other object. There is at most one ProcessorDefault, named OwnProcessor.
type ProcessorDefault struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	URL   string // "": no processor
	Route bool   // the processor chooses endpoints, unless the policy decides otherwise
}

// OwnProcessor is the name of the one ProcessorDefault.
const OwnProcessor = "own"

func (p *ProcessorDefault) DeepCopyObject() runtime.Object { return deepcopy.Of(p) }

// Occupant names the Services that use one IP address: as a cluster IP, or as an endpoint in an
// EndpointSlice that Kubernetes makes. discovery/kube writes it for addresses that translation
// reads. Its name is the address.
type Occupant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Clusters  []string // Services with this cluster IP, "namespace/name", sorted
	Endpoints []string // Services with an endpoint at the address, "namespace/name", sorted
	Lists     []string // keys of ByAddresses that translation reads and that have the address
}

// AddressesKey returns a key of ByAddresses: the sorted, distinct addresses, joined by spaces. It
// sorts list.
func AddressesKey(list []netip.Addr) string {
	slices.SortFunc(list, netip.Addr.Compare)
	key := make([]byte, 0, len("255.255.255.255 ")*len(list))
	for i, ip := range slices.Compact(list) {
		if i > 0 {
			key = append(key, ' ')
		}
		key = ip.AppendTo(key)
	}
	return string(key)
}

func (o *Occupant) DeepCopyObject() runtime.Object { return deepcopy.Of(o) }
