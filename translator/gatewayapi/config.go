package gatewayapi

import (
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
)

// Controller is the default controllerName of our GatewayClasses.
const Controller = "penstock.dev/gateway-controller"

// Config configures the translation of Gateway API.
type Config struct {
	// Controller is the controllerName of our classes; "" for the default.
	Controller string
	// AnyClass makes a Gateway ours if its GatewayClass does not exist: small folders need none. If
	// the class exists, its controllerName decides.
	AnyClass bool
	// AnyController makes every Gateway ours, whatever its class is: for files of any origin.
	AnyController bool
	// BehindService is set if a Service in front of the proxies has the Gateway's addresses. The
	// proxies then bind any address.
	BehindService bool
	// ReservedPort is a port that managed proxies bind for themselves, so that listeners cannot use
	// it; 0 for none.
	ReservedPort uint16
}

func (c Config) controller() string {
	if c.Controller == "" {
		return Controller
	}
	return c.Controller
}

// Backends resolves InferencePools and InferencePoolImports. The caller has already checked grants.
type Backends interface {
	// Resolve returns the target of requests for ref. port is the backendRef's, 0 without one.
	Resolve(r store.Reader, ref report.Ref, port int32) Resolution
	// Restrict is Resolve for an InferencePool, limited to the endpoints of a policy's subset.
	Restrict(r store.Reader, ref report.Ref, policy *v1alpha1.PoolPolicy) Resolution
}

// Resolution is the target of requests for one backend.
type Resolution struct {
	Targets []Target // one for a pool, one for each exporting cluster of an import
	// Clusters and Hops are everything that the targets need, including pickers and spill targets.
	Clusters []model.ClusterID
	Hops     []model.HopID
	// Members describes the hops to Targets, for an import with several exporting clusters; else
	// nil.
	Members *Members
	// Ref is the store.TargetKey of the object that an alias resolved to; "" for the referenced
	// object.
	Ref string
	// Reason (of the ResolvedRefs condition) and Message (a sentence) are set if the backend is
	// unresolved. Its share of requests then gets 500.
	Reason, Message string
	// Outside is set if a resolved backend has addresses that are not allowed: which and why.
	Outside string
}

// Members describes the hops to an import's exporting clusters.
type Members struct {
	Cluster model.ClusterID // of the hops
	Spills  uint32          // number of further hops
	Order   model.HopOrder
	Chooser *model.PickerCall // selects the hop; nil without one
	RetryOn model.RetryOn
}

// Target is a cluster of a backend, with its share of the requests. Fields without a comment are as
// in model.WeightedBackend.
type Target struct {
	Cluster model.ClusterID
	Share   uint32 // relative to the other targets; 0 takes no new requests
	Picker  *model.PickerCall
	// Protocol is the endpoints' protocol, also behind hops.
	Protocol    model.Protocol
	Hops        bool
	External    bool
	MaxGateways uint32
	Peer        string
	Hop         model.HopID
	// Hostname is the Host for its endpoints, which overrides a route's filters; "" without one.
	Hostname string
}
