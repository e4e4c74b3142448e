package app

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"go.opentelemetry.io/otel/trace"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"k8s.io/client-go/rest"

	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/recording"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/envoy"
)

// Controller is the controllerName of our GatewayClasses and of the parents that we write.
const Controller = "penstock.dev/gateway-controller"

// Config is what every App needs.
type Config struct {
	// StateDir keeps last good objects, the status file and the socket for other penstock commands.
	// A stand-alone picker may do without.
	StateDir string
	// XDS and Picker are listeners for Envoys; the App closes them. XDS needs Credentials, or a
	// fleet. It may be nil if there is Local.
	XDS, Picker net.Listener
	// Local is a socket of ADS and, without Peers.Listener, of peers that no other user can open
	// (ListenSocket): its clients are trusted. nil: none.
	Local net.Listener
	// Credentials secure XDS and Picker where no fleet runs; nil: every client that reaches Picker
	// is trusted.
	Credentials *Credentials
	// Disk reads the files that flags name: /healthz notices one that hangs.
	Disk *filesystem.Disk
	// Peers are the other processes that serve the same Envoys.
	Peers Peers
	// Members are the other clusters of the cluster set, and how they reach this one.
	Members Members
	// PickerAddresses and PickerSockets (paths) are where Envoys reach our picker; the Picker
	// listener's own address if both are empty.
	PickerAddresses []netip.AddrPort
	PickerSockets   []string
	// HTTP serves metrics and health. On a loopback address it also serves the admin pages, as
	// Admin does: the status and the explanations of all objects. nil: none, beside the socket in
	// StateDir, which serves all pages.
	HTTP, Admin net.Listener
	// Addresses are what may become endpoints, and how names are resolved.
	Addresses Addresses
	// Processor is that of pools whose policy names none.
	Processor Processor
	// HeldBodies bounds the request bodies that the picker holds, in bytes.
	HeldBodies int64
	// Recording is where requests are recorded; nil: nowhere.
	Recording *recording.File
	// KVEvents accepts model servers that connect to publish KV events; nil: none.
	KVEvents net.Listener
	// DefaultPool is the pool of external gateways that name none. Zero: the only pool, if there is
	// one.
	DefaultPool objectid.Pool
	// Offers are the exported pools that gateways of others may use, too.
	Offers []Offer
	// AccessLog is where Envoys log requests; "" for nowhere.
	AccessLog string
	// DrainTime is how long streams of a removed filter chain may go on.
	DrainTime time.Duration
	// StopTimeout is how long picks in flight may go on once the process ends; 0: a second.
	StopTimeout time.Duration
	// Memory is how many bytes the process may use, of its container for instance; Go stays below
	// them with room to spare. 0: no limit.
	Memory int64
	// Tracer takes spans; Collector and Sampling are for Envoys' own.
	Tracer    trace.TracerProvider
	Collector netip.AddrPort
	Sampling  float64
	Log       *slog.Logger
}

// Offer is an exported pool that gateways of others may use, which are no members of the cluster
// set or name no pool to a picker.
type Offer struct {
	Pool objectid.Pool
	// Picker serves picks from the pool alone; the App closes it. nil: there are none.
	Picker net.Listener
}

// offers are the ports of Offers by their pools; 0: the pool has none.
func (c Config) offers() map[objectid.Pool]int32 {
	out := map[objectid.Pool]int32{}
	for _, o := range c.Offers {
		out[o.Pool] = 0
		if o.Picker != nil {
			out[o.Pool] = int32(netip.MustParseAddrPort(o.Picker.Addr().String()).Port())
		}
	}
	return out
}

// Folder is what the role of a folder needs.
type Folder struct {
	// Paths are the folders and files with objects. At least one.
	Paths []string
	// OnePort gives each port to one Gateway: their Envoys run on one machine.
	OnePort bool
	// OnGateways is called with the names of all Gateways of this controller after each change;
	// nil: not at all.
	OnGateways func(gateways []string)
}

// OfflineConfig is what NewOffline needs.
type OfflineConfig struct {
	Paths []string
	// StateDir has the last good objects of a process that ran for these files; "": there is none.
	StateDir string
	// PickerAddresses are where Envoys would reach our picker.
	PickerAddresses []netip.AddrPort
	// AnyController takes every Gateway, whatever its class names: for files of another project.
	AnyController bool
	Processor     Processor // as in Config
	Log           *slog.Logger
}

// Kubernetes is what the role of a Kubernetes cluster needs.
type Kubernetes struct {
	// REST is how the API server is reached.
	REST *rest.Config
	// Namespace holds the Lease that elects the process which writes statuses; Identity is this
	// one's name.
	Namespace, Identity string
	// Namespaces are the only namespaces in which objects are read and fleets run, Namespace among
	// them; none: all.
	Namespaces []string
	// Service is the Service in front of all penstock processes, "namespace/name": Envoys ask
	// pickers at its endpoints' port PickerPort, and the processes find each other at PeerPort.
	// Empty: this process is the only one, and its picker is at Config.PickerAddresses.
	Service string
	// Fleet runs the proxies of Gateways here, and serves ADS over TLS; nil: all proxies run
	// elsewhere. It needs Service and Config.Peers.Listener.
	Fleet *Fleet
	// Features are those that GatewayClasses list as supported.
	Features []gatewayv1.FeatureName
}

// Names of ports of Kubernetes.Service.
const (
	PickerPort = "picker"
	PeerPort   = "peers"
)

// Peers are the other processes that serve the same Envoys, and how they reach this one.
type Peers struct {
	// Addresses are where they serve; this process's own may be among them. On Kubernetes they are
	// found behind the Service.
	Addresses []string
	// Listener serves peers; nil: Config.Local does.
	Listener net.Listener
	// TLS identifies peers on Listener; nil: where fleets run here, the certificates of their
	// authority do; else Listener is a socket that no other user can open.
	TLS *MutualTLS
}

// Members are how other clusters of the cluster set reach this one.
type Members struct {
	// Listener serves what this cluster exports, over mTLS; nil: no other cluster subscribes to it.
	// The App closes it.
	Listener net.Listener
	// Listen opens the listener on Kubernetes, where the process that leads has it alone.
	Listen func(context.Context) (net.Listener, error)
	// Address is where they reach it, as HOST:PORT.
	Address string
}

// MutualTLS is a connection on which both sides show a certificate.
type MutualTLS struct{ Server, Client *tls.Config }

// StatusFile is where the status of all objects is written.
func StatusFile(stateDir string) string { return filepath.Join(stateDir, "status.json") }

// translation is how a serving process translates.
func (c Config) translation() translator.Config {
	out := translator.Config{Controller: Controller, AnyClass: true, Pickers: c.PickerAddresses,
		PickerSockets: c.PickerSockets, NoPublishers: c.KVEvents == nil, Envoy: envoy.Config{AccessLog: c.AccessLog}}
	switch own := c.Picker.Addr(); {
	case len(out.Pickers)+len(out.PickerSockets) > 0:
	case own.Network() == "unix":
		out.PickerSockets = []string{own.String()}
	default:
		out.Pickers = []netip.AddrPort{netip.MustParseAddrPort(own.String())}
	}
	if c.Credentials != nil {
		out.PickerName = c.Credentials.Name
	}
	if c.Collector.IsValid() {
		out.Collector = c.Collector
		out.Envoy.Tracing = &envoy.Tracing{SamplingPercent: c.Sampling}
	}
	return out
}
