package translator

import (
	"net/netip"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

// Config configures a Translator.
type Config struct {
	// Controller, AnyClass, AnyController, BehindService and ReservedPort are as in
	// gatewayapi.Config.
	Controller string
	// AnyClass accepts Gateways whose GatewayClass does not exist.
	AnyClass bool
	// AnyController accepts every Gateway, whatever its class is.
	AnyController bool
	// BehindService is set if a Service in front of the proxies has the Gateways' addresses.
	BehindService bool
	// ReservedPort is a port that our proxies bind for themselves; 0 for none.
	ReservedPort uint16
	// Pickers are our picker's addresses for Envoys.
	Pickers []netip.AddrPort
	// PickerSockets are Unix sockets of our picker, in addition to Pickers.
	PickerSockets []string
	// PickerService is our picker's Service ("namespace/name"), and PickerPort the name of its
	// port. Envoys follow the Service's endpoints, not Pickers.
	PickerService, PickerPort string
	// PickerName is the name in our picker's certificate; "" means cleartext. With a certificate
	// the picker requires a key.
	PickerName string
	// StandAlone makes this process pick for all InferencePools, on behalf of gateways that it does
	// not configure.
	StandAlone *inference.StandAlone
	// OnDemand lists store tables that hold only the objects in Output.Wanted.
	OnDemand []string
	// Slices is set if every Service has EndpointSlices. Otherwise a Service without EndpointSlices
	// selects Pods itself.
	Slices bool
	// NoPublishers is set if model servers cannot connect to publish KV events.
	NoPublishers bool
	// Envoy configures all listeners.
	Envoy envoy.Config
	// InvalidFleet returns the first invalid field of an EnvoyFleet, its problem and a fix, or "".
	// Optional.
	InvalidFleet func(*v1alpha1.EnvoyFleetSpec) (field, problem, fix string)
	// Collector is the OpenTelemetry collector; invalid for no tracing.
	Collector netip.AddrPort
}

func (c Config) ownClusters() []model.ClusterID {
	own := []model.ClusterID{model.OurPicker, model.OurGate}
	if c.Collector.IsValid() {
		own = append(own, model.Collector)
	}
	return own
}

// noController makes a stand-alone picker serve no Gateway: no class can have this name.
const noController = "-"

func (c Config) gatewayAPI() gatewayapi.Config {
	if c.StandAlone != nil {
		return gatewayapi.Config{Controller: noController}
	}
	return gatewayapi.Config{Controller: c.Controller, AnyClass: c.AnyClass, AnyController: c.AnyController,
		BehindService: c.BehindService, ReservedPort: c.ReservedPort}
}
