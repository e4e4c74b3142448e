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
	"github.com/penstock-project/penstock/xds/admission/ports"
)

// Controller is the controllerName of Penstock's GatewayClasses and statuses.
const Controller = "penstock.dev/gateway-controller"

// Config configures every role that serves.
type Config struct {
	// StateDir keeps the last valid objects, the status and the socket for other penstock commands.
	// Only a stand-alone picker may omit it.
	StateDir string
	// XDS and Picker are listeners for Envoys; the App closes them. XDS needs Credentials or a
	// fleet, and may be nil if Local is set.
	XDS, Picker net.Listener
	// Local is a Unix socket (ListenSocket) for ADS and, without Peers.Listener, for peers; nil:
	// none. All its clients are trusted, because only this user can open the socket.
	Local net.Listener
	// Credentials secure XDS and Picker if no fleet runs; nil: every client of Picker is trusted.
	Credentials *Credentials
	// Sockets keeps the socket in StateDir open while this program is replaced in its process; nil:
	// it is never replaced.
	Sockets *ports.Sockets
	// Replaces means that this program has replaced another one in the same process. The picker
	// then accepts calls only after the first delivery.
	Replaces bool
	// Disk reads the files that flags name. /healthz fails while a read hangs.
	Disk    *filesystem.Disk
	Peers   Peers
	Members Members
	// PickerAddresses and PickerSockets (paths) are where Envoys reach this process's picker.
	// Without them, Envoys use the address of Picker.
	PickerAddresses []netip.AddrPort
	PickerSockets   []string
	// HTTP serves metrics and health; on a loopback address it also serves the admin pages. Admin
	// and the socket in StateDir serve all pages. HTTP and Admin may be nil.
	HTTP, Admin net.Listener
	Addresses   Addresses
	Fetch       Fetch
	Processor   Processor
	// HeldBodies bounds the request bodies that the picker holds, in bytes.
	HeldBodies int64
	// Recording records requests; nil: off.
	Recording *recording.File
	// KVEvents accepts model servers that connect to publish KV events; nil: none.
	KVEvents net.Listener
	// DefaultPool is for external gateways that name no pool. The zero Pool means the only pool, if
	// there is just one.
	DefaultPool objectid.Pool
	Offers      []Offer
	// AccessLog is the path of Envoys' access log; "": none.
	AccessLog string
	// UsageDB returns the URL of the PostgreSQL database of usage; nil: SQLite in StateDir.
	UsageDB func() (string, error)
	// DrainTime is how long streams of removed filter chains may continue.
	DrainTime time.Duration
	// StopTimeout is how long picks in flight may continue at shutdown; 0: a second.
	StopTimeout time.Duration
	// Memory is the process's memory limit in bytes. Go's own limit is lower. 0: no limit.
	Memory int64
	// Tracer receives this process's spans. Collector and Sampling (in percent) configure Envoys'
	// spans.
	Tracer    trace.TracerProvider
	Collector netip.AddrPort
	Sampling  float64
	// OnServers receives a line when servers of a pool stop serving or serve again. It must not
	// block. nil: these lines are logged.
	OnServers func(line string)
	Log       *slog.Logger
}

// Offer is an exported pool for gateways that are outside the cluster set, or that name no pool.
type Offer struct {
	Pool objectid.Pool
	// Picker accepts picks for Pool only; the App closes it. nil: none.
	Picker net.Listener
}

// offers maps the pools of Offers to the ports of their listeners; 0: no listener.
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

// Folder configures the role of a folder.
type Folder struct {
	// Paths are folders and files with objects. Required.
	Paths []string
	// OnePort gives each port to one Gateway, because all Envoys run on one machine.
	OnePort bool
	// OnGateways receives the names of all Gateways of Penstock's class after each change; may be
	// nil.
	OnGateways func(gateways []string)
	// Engines starts the model servers of ModelDeployments. They outlive the process.
	Engines bool
	// Devices is the number of accelerators; 0: the engines' list commands list them.
	Devices int
	// ModelsLimit bounds the bytes of all downloaded models together; 0: no limit.
	ModelsLimit int64
	// OnPhase is called when the phase of a ModelDeployment changes; may be nil.
	OnPhase func(id, phase, message string)
}

// OfflineConfig configures NewOffline.
type OfflineConfig struct {
	Paths []string
	// StateDir has the last good objects of a process that ran for these files; "": none.
	StateDir        string
	PickerAddresses []netip.AddrPort
	// AnyController accepts Gateways of every class, for files of another project.
	AnyController bool
	Processor     Processor
	Log           *slog.Logger
}

// Kubernetes configures the role of a Kubernetes cluster.
type Kubernetes struct {
	REST *rest.Config
	// Namespace has the Lease that elects the leader. Identity is the name of this process.
	Namespace, Identity string
	// Namespaces limits where objects are read and fleets run. It includes Namespace. Empty: all.
	Namespaces []string
	// Service, "namespace/name", is in front of all penstock processes. Envoys call pickers at its
	// PickerPort, and processes find each other at its PeerPort. Empty: this process is alone, and
	// its picker is at Config.PickerAddresses.
	Service string
	// Fleet runs the proxies of Gateways and serves ADS over TLS; nil: all proxies run elsewhere.
	// It needs Service and Config.Peers.Listener.
	Fleet *Fleet
	// Features are the supportedFeatures in the status of GatewayClasses.
	Features []gatewayv1.FeatureName
}

const (
	PickerPort = "picker"
	PeerPort   = "peers"
)

// Peers configures how the processes that serve the same Envoys reach each other.
type Peers struct {
	// Addresses may include this process's own address. On Kubernetes they come from the Service.
	Addresses []string
	// Listener serves peers; nil: Config.Local serves them.
	Listener net.Listener
	// TLS identifies peers on Listener; nil: certificates of the fleet's authority do. Without TLS
	// and fleet, Listener must be a socket that no other user can open.
	TLS *MutualTLS
}

// Members configures how other clusters of the cluster set reach this one.
type Members struct {
	// Listener serves this cluster's exports, over mTLS; nil: no other cluster subscribes to them.
	// The App closes it.
	Listener net.Listener
	// Listen opens the listener on Kubernetes, where only the leader listens.
	Listen func(context.Context) (net.Listener, error)
	// Address is the HOST:PORT at which members reach the listener.
	Address string
}

// MutualTLS configures connections on which both sides present a certificate.
type MutualTLS struct{ Server, Client *tls.Config }

// StatusFile returns the path of the file with the status of all objects.
func StatusFile(stateDir string) string { return filepath.Join(stateDir, "status.json") }

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
