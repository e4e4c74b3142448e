package bootstrap

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
)

// ProfileKey is the field of the node's metadata that carries Config.Profile.
const ProfileKey = "penstock.dev/profile"

// Config is what differs between Envoys.
type Config struct {
	// Gateway is "namespace/name" of the Gateway that the proxy serves; it becomes node.cluster.
	// Required.
	Gateway string
	// NodeID identifies the proxy among those of its gateway. Default: Gateway.
	NodeID string
	// Zone is the proxy's zone, for zone-aware load balancing. Optional.
	Zone string
	// Profile names the abilities of this bootstrap (see xds/cache). Default: DefaultProfile.
	Profile string

	// ADS are the control plane's addresses: "host:port", or "unix:PATH". With two or more a proxy
	// fails over in milliseconds. Required.
	ADS []string
	// TLS secures the connection to the control plane. nil: cleartext, for loopback and sockets.
	TLS *TLS

	// Token is the file of the bearer token that authenticates the proxy to the control plane; it
	// is read again whenever it is replaced. It needs TLS, which keeps it secret, and Secrets.
	Token string
	// Secrets is the folder of the files that SecretFiles returns, as the proxy sees it. With it,
	// Envoy takes a new CA, certificate or token without a restart; without it they are read once.
	// Optional.
	Secrets string

	// Ready is the "ip:port" where ReadyPath reports readiness. Optional.
	Ready string
	// Extra is a bootstrap as JSON that is merged over this one. Optional.
	Extra []byte
	// Admin is the admin interface: "ip:port" (port 0: any free one) or "unix:PATH". Default:
	// 127.0.0.1:0.
	Admin string
	// Tags are added to every statistic. Optional.
	Tags map[string]string
	// MaxHeapBytes is the heap size; from 97 % of it on, Envoy answers new requests with 503.
	// Default: 2 GiB.
	MaxHeapBytes uint64
	// MaxConnections is the limit of downstream connections. Default: 50,000.
	MaxConnections int64

	// DrainTime is the drain time of a removed filter chain's connections; an argument of the
	// command line. Default: 10 minutes.
	DrainTime time.Duration
	// Concurrency is the number of worker threads; an argument of the command line. 0: one for each
	// core.
	Concurrency int
}

// TLS names files. Envoy watches them only with Config.Secrets.
type TLS struct {
	CA   string // PEM; verifies the control plane. Required.
	Cert string // PEM; the proxy's own certificate. Optional, with Key.
	Key  string // PEM
	// ServerName is sent (SNI) and must be in the certificate. Default: the first address's host.
	ServerName string
}

// DefaultProfile names what listeners of this version rely on: the fixed list of HTTP filters, and
// what the bootstrap must have for them. Raise it when the list gains, loses or moves a filter, or
// when a listener needs something that older bootstraps lack, and commit what older proxies get
// under the older profile: otherwise the upgrade of a control plane drains all streams at once, or
// breaks proxies that were not replaced.
//
// It is still 1: every bootstrap takes today's listeners. Since the first version the list has
// gained one filter (uploads), and fields of listeners and filters have changed (timeouts, escaped
// slashes, headers with underscores). These protect proxies, so those of older bootstraps get them
// too, at the price of one drain.
const DefaultProfile = "1"

// DefaultDrainTime is the default of Config.DrainTime.
const DefaultDrainTime = 10 * time.Minute

// Args are the arguments of Envoy's command line that have no field in the bootstrap.
func (c Config) Args() []string {
	c = c.withDefaults()
	args := []string{
		"--drain-time-s", strconv.Itoa(int(c.DrainTime.Seconds())),
		// A removed chain stops taking new requests at once; the default ramps that up.
		"--drain-strategy", "immediate",
		"--disable-hot-restart",
	}
	if c.Concurrency > 0 {
		args = append(args, "--concurrency", strconv.Itoa(c.Concurrency))
	}
	return args
}

func (c Config) withDefaults() Config {
	if c.NodeID == "" {
		c.NodeID = c.Gateway
	}
	if c.Profile == "" {
		c.Profile = DefaultProfile
	}
	if c.Admin == "" {
		c.Admin = "127.0.0.1:0"
	}
	if c.MaxHeapBytes == 0 {
		c.MaxHeapBytes = 2 << 30
	}
	if c.MaxConnections == 0 {
		c.MaxConnections = 50_000
	}
	if c.DrainTime == 0 {
		c.DrainTime = DefaultDrainTime
	}
	return c
}

// validate returns an error that names the field and what to write instead.
func (c Config) validate() error {
	if _, _, ok := objectid.Split(c.Gateway); !ok {
		return fmt.Errorf("gateway %q: write namespace/name", c.Gateway)
	}
	if len(c.ADS) == 0 {
		return fmt.Errorf("no address of a control plane")
	}
	addresses := append([]string{c.Admin}, c.ADS...)
	if c.Ready != "" {
		addresses = append(addresses, c.Ready)
	}
	for _, a := range addresses {
		if _, err := parseAddress(a); err != nil {
			return err
		}
	}
	admin, _ := parseAddress(c.Admin)
	if admin.path == "" && !admin.isIP() {
		return fmt.Errorf("admin address %q: Envoy listens on an IP address or unix:PATH only", c.Admin)
	}
	if t := c.TLS; t != nil && (t.CA == "" || (t.Cert == "") != (t.Key == "")) {
		return fmt.Errorf("TLS to the control plane needs a CA, and a certificate only together with its key")
	}
	if c.Token != "" && (c.TLS == nil || c.Secrets == "") {
		return fmt.Errorf("a token needs TLS to the control plane, and a folder for the secrets' files")
	}
	return nil
}

// address is a socket address or a path.
type address struct {
	host string
	port uint32
	path string
}

func (a address) isIP() bool {
	_, err := netip.ParseAddr(a.host)
	return err == nil
}

func parseAddress(s string) (address, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		path = strings.TrimPrefix(path, "//")
		if path == "" {
			return address{}, fmt.Errorf("address %q: no path", s)
		}
		return address{path: path}, nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return address{}, fmt.Errorf("address %q: write host:port or unix:PATH", s)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return address{}, fmt.Errorf("address %q: the port is a number from 0 to 65535", s)
	}
	return address{host: host, port: uint32(n)}, nil
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
