package translator

import (
	"net/netip"

	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

// Config is what translation needs to know beside the objects. It does not change while a
// Translator lives.
type Config struct {
	// Controller is the controllerName of GatewayClasses that are ours.
	Controller string
	// AnyClass takes Gateways whose GatewayClass does not exist: small folders need none.
	AnyClass bool
	// AnyController takes every Gateway, whatever its class is.
	AnyController bool
	// BehindService is set if proxies run behind a Service, which has the addresses that Gateways
	// ask for.
	BehindService bool
	// ReservedPort is one that proxies which we run bind for themselves; 0: none.
	ReservedPort uint16
	// Pickers are the addresses at which our own picker serves, as Envoys reach it.
	Pickers []netip.AddrPort
	// PickerSockets are paths of Unix sockets at which it serves Envoys of this machine, beside
	// Pickers.
	PickerSockets []string
	// PickerService is the Service behind which our own picker serves, as "namespace/name", and
	// PickerPort the name of its port: Envoys then follow its endpoints, and Pickers does not
	// count.
	PickerService, PickerPort string
	// PickerName is the name in the certificate of our own picker, which then speaks TLS and is
	// shown a key; both are in the store's Authority. Empty: cleartext.
	PickerName string
	// StandAlone, if set, has all InferencePools picked from by this process, for gateways that it
	// does not configure.
	StandAlone *inference.StandAlone
	// OnDemand are tables of the store that hold only what is read: Output.Wanted asks for it.
	OnDemand []string
	// Slices is set if every Service has EndpointSlices, as a cluster makes them. Else a Service
	// without any selects its endpoints itself.
	Slices bool
	// NoPublishers is set if model servers cannot connect to publish KV events.
	NoPublishers bool
	// Envoy holds what every listener shares.
	Envoy envoy.Config
	// Collector is the OpenTelemetry collector's address; not valid: no tracing.
	Collector netip.AddrPort
}

// ownClusters are the clusters that every Gateway has.
func (c Config) ownClusters() []model.ClusterID {
	own := []model.ClusterID{model.OurPicker}
	if c.Collector.IsValid() {
		own = append(own, model.Collector)
	}
	return own
}

// noController is the controllerName of no GatewayClass: an API server rejects it. A stand-alone
// picker serves no Gateway.
const noController = "-"

// gatewayAPI is the part that translation of Gateway API needs.
func (c Config) gatewayAPI() gatewayapi.Config {
	if c.StandAlone != nil {
		return gatewayapi.Config{Controller: noController}
	}
	return gatewayapi.Config{Controller: c.Controller, AnyClass: c.AnyClass, AnyController: c.AnyController,
		BehindService: c.BehindService, ReservedPort: c.ReservedPort}
}
