package gatewayapi

import (
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
)

// Controller is the controllerName of GatewayClasses that are ours.
const Controller = "penstock.dev/gateway-controller"

// Config is what translation needs beside the objects.
type Config struct {
	// Controller is the controllerName of the classes that are ours; Controller if empty.
	Controller string
	// AnyClass makes a Gateway ours whose GatewayClass does not exist: small files need no class. A
	// class that exists and names another controller still makes it that controller's.
	AnyClass bool
	// AnyController makes every Gateway ours, whatever its class is: for reading files of any
	// origin.
	AnyController bool
	// BehindService is set if a Service stands in front of the proxies: the addresses that a
	// Gateway asks for are the Service's, and proxies bind any.
	BehindService bool
	// ReservedPort is one that the proxies which we run (an EnvoyFleet's mode managed) bind for
	// themselves, and no listener of theirs can have; 0: none.
	ReservedPort uint16
}

func (c Config) controller() string {
	if c.Controller == "" {
		return Controller
	}
	return c.Controller
}

// Backends resolves the backends that are not Services: InferencePools and InferencePoolImports.
// Whether the reference may cross namespaces is already decided when it is asked.
type Backends interface {
	// Resolve finds where requests for ref go. port is the backendRef's, 0 if it has none.
	Resolve(r store.Reader, ref report.Ref, port int32) Resolution
	// Restrict is Resolve for an InferencePool of whose endpoints the requests may reach a policy's
	// subset alone.
	Restrict(r store.Reader, ref report.Ref, policy *v1alpha1.PoolPolicy) Resolution
}

// Resolution is where requests for one backend go.
type Resolution struct {
	Targets []Target // one for a pool, one for each exporting cluster of an import
	// Clusters and Hops are all that the targets need: their own clusters, pickers', and those of
	// spill targets.
	Clusters []model.ClusterID
	Hops     []model.HopID
	// Members are the hops to Targets, of an import with several exporting clusters; nil for
	// others.
	Members *Members
	// Ref is the store.TargetKey of the object that the name resolved to; "" for the one that it
	// names.
	Ref string
	// Reason and Message are why it could not be resolved: a reason of the ResolvedRefs condition
	// and a sentence. The backend's share of requests is then answered 500. Reason is "" for a
	// backend that was resolved.
	Reason, Message string
	// Outside is set if the backend was resolved but has addresses that may not become endpoints:
	// which and why.
	Outside string
}

// Members are the hops to the exporting clusters of an import.
type Members struct {
	Cluster model.ClusterID // of the hops
	Spills  uint32          // how many further hops it has
	Order   model.HopOrder
	Chooser *model.PickerCall // is asked for the hop; nil: none is
	RetryOn model.RetryOn
}

// Target is one cluster of a backend, with its share of the backend's requests.
type Target struct {
	Cluster model.ClusterID
	Share   uint32 // relative to the other targets; 0 takes no new request
	Picker  *model.PickerCall
	// Protocol is what its endpoints speak, those behind hops too.
	Protocol model.Protocol
	Hops     bool // see model.WeightedBackend
	External bool // see model.WeightedBackend
	// MaxGateways is model.WeightedBackend's.
	MaxGateways uint32
	// Peer is model.WeightedBackend's.
	Peer string
	// Hop is model.WeightedBackend's.
	Hop model.HopID
	// Hostname is the Host that its endpoints are asked for, whatever a route's filters have it be;
	// "": they decide.
	Hostname string
}
