package gatewayapi

import (
	"cmp"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
)

// Controller is the default controllerName of Penstock's GatewayClasses.
const Controller = "penstock.dev/gateway-controller"

// Config configures the translation of Gateway API.
type Config struct {
	// Controller is the controllerName of Penstock's GatewayClasses; "" means the default.
	Controller string
	// AnyClass accepts a Gateway even if its GatewayClass does not exist, so that small folders
	// need no class.
	AnyClass bool
	// AnyController accepts Gateways of every class.
	AnyController bool
	// BehindService is set if a Service in front of the proxies has the Gateway's addresses: the
	// proxies then bind any address.
	BehindService bool
	// ReservedPort is a port that Penstock's Envoys bind for their own use; 0 for none.
	ReservedPort uint16
}

func (c Config) controller() string { return cmp.Or(c.Controller, Controller) }

// Backends resolves InferencePools and InferencePoolImports, after a check of grants.
type Backends interface {
	Resolve(r store.Reader, ref report.Ref, port int32) Resolution
	// Restrict is Resolve for an InferencePool, limited to the endpoints of a policy's subset.
	Restrict(r store.Reader, ref report.Ref, policy *v1alpha1.PoolPolicy) Resolution
}

// Resolution is the target of requests for one backend.
type Resolution struct {
	Targets []Target // one for each exporting cluster of an import
	// Clusters and Hops are all that the targets need.
	Clusters []model.ClusterID
	Hops     []model.HopID
	// Members is set for an import with several exporting clusters.
	Members *Members
	// Ref is the store.TargetKey of the object that an alias means; "" without an alias.
	Ref string
	// Reason and Message are set if the backend is unresolved: its share gets 500.
	Reason, Message string
	// Outside describes addresses of a resolved backend that are not allowed.
	Outside string
}

// Members describes the hops (internal listeners) to an import's exporting clusters.
type Members struct {
	Cluster model.ClusterID // cluster of the hops
	Spills  uint32          // number of hops to spill targets
	Order   model.HopOrder
	Chooser *model.PickerCall // selects a hop; nil: weights and priorities do
	RetryOn model.RetryOn
}

// Target is an Envoy cluster of a backend. Undocumented fields are as in model.WeightedBackend.
type Target struct {
	Cluster model.ClusterID
	Share   uint32 // relative to the other targets; 0: no new requests
	Picker  *model.PickerCall
	// Protocol is the servers' protocol, even behind hops.
	Protocol    model.Protocol
	Hops        bool
	External    bool
	MaxGateways uint32
	Peer        string
	Hop         model.HopID
	// Hostname is the Host header for the cluster's endpoints, and overrides a route's filters; ""
	// for none.
	Hostname string
}
