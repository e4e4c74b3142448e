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
	// Controller is the controllerName of Penstock's GatewayClasses; "" means the default.
	Controller string
	// AnyClass accepts a Gateway even if its GatewayClass does not exist.
	AnyClass bool
	// AnyController accepts Gateways of every class.
	AnyController bool
	// BehindService is set if a Service in front of the proxies has the Gateways' addresses.
	BehindService bool
	// ReservedPort is a port that Penstock's Envoys bind for their own use; 0 for none.
	ReservedPort uint16
	// Pickers are the addresses at which Envoys reach Penstock's picker.
	Pickers []netip.AddrPort
	// PickerSockets are Unix sockets of the picker, in addition to Pickers.
	PickerSockets []string
	// PickerService is the picker's Service ("namespace/name"), and PickerPort its port's name. If
	// set, Envoys use the Service's endpoints, not Pickers.
	PickerService, PickerPort string
	// PickerName is the DNS name in the picker's certificate; "" means cleartext. With a
	// certificate, the picker requires a key from Envoys.
	PickerName string
	// If StandAlone is set, this process only picks, on behalf of gateways that it does not
	// configure.
	StandAlone *inference.StandAlone
	// OnDemand lists store tables that contain only the objects in Output.Wanted.
	OnDemand []string
	// Slices is set if every Service has EndpointSlices. Otherwise a Service without EndpointSlices
	// selects Pods itself.
	Slices bool
	// NoPublishers is set if model servers cannot connect to this process to publish KV events.
	NoPublishers bool
	Envoy        envoy.Config
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

// noController is a stand-alone picker's controllerName. No GatewayClass can have it, so the picker
// configures no Gateway.
const noController = "-"

func (c Config) gatewayAPI() gatewayapi.Config {
	if c.StandAlone != nil {
		return gatewayapi.Config{Controller: noController}
	}
	return gatewayapi.Config{Controller: c.Controller, AnyClass: c.AnyClass, AnyController: c.AnyController,
		BehindService: c.BehindService, ReservedPort: c.ReservedPort}
}
