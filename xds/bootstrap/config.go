package bootstrap

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
)

// ProfileKey is the field of the node's metadata that carries Config.Profile.
const ProfileKey = "penstock.dev/profile"

// Config has the settings that differ between Envoys.
type Config struct {
	// Gateway is the "namespace/name" of the proxy's Gateway. Required.
	Gateway string
	// NodeID identifies the proxy within its gateway. Default: Gateway.
	NodeID string
	// Zone is the proxy's zone, for zone-aware load balancing. Optional.
	Zone string
	// Profile identifies the capabilities of this bootstrap. Default: DefaultProfile.
	Profile string

	// ADS are the addresses of control planes: "host:port", or "unix:PATH". Required.
	ADS []string
	// TLS secures the connection to the control plane. Without it the connection is cleartext.
	TLS *TLS

	// Token is the file of the proxy's bearer token. Envoy reads the file again when it is
	// replaced. Token requires TLS and Secrets.
	Token string
	// Secrets is the path of a folder at the proxy: it has the files of SecretFiles. With Secrets,
	// Envoy loads a new CA, certificate or token without a restart.
	Secrets string

	// Ready is the "ip:port" where ReadyPath reports readiness.
	Ready string
	// Extra is a bootstrap in JSON that is merged over this one.
	Extra []byte
	// Admin is the admin interface: "ip:port" (port 0: any free port) or "unix:PATH". Default:
	// 127.0.0.1:0.
	Admin string
	// MaxHeapBytes is the maximum heap size (default: 2 GiB). Above 97 % of it, Envoy answers new
	// requests with 503.
	MaxHeapBytes uint64
	// MaxConnections limits downstream connections. Default: 50,000.
	MaxConnections int64

	// DrainTime is the drain time of a removed filter chain. Default: 10 minutes.
	DrainTime time.Duration
	// Concurrency is the number of worker threads, set on the command line. 0: one per core.
	Concurrency int
}

// TLS names files. Envoy watches them only with Config.Secrets.
type TLS struct {
	CA   string // PEM. Required.
	Cert string // PEM. Optional, with Key.
	Key  string // PEM
	// ServerName is the SNI. Default: the host of the first address.
	ServerName string
}

// DefaultProfile identifies the requirements of this version's listeners. Raise it when the list of
// HTTP filters gains, loses or moves a filter, or when a listener needs a setting that older
// bootstraps lack. Then serve older profiles their previous resources. Otherwise an upgrade of the
// control plane drains all streams at once, or breaks older proxies.
//
// It is still 1, although a filter named uploads was added. That filter protects proxies, so older
// proxies get it, too, and drain once.
const DefaultProfile = "1"

// DefaultDrainTime is the default of Config.DrainTime.
const DefaultDrainTime = 10 * time.Minute

// Args returns the arguments of Envoy's command line that have no field in the bootstrap.
func (c Config) Args() []string {
	c = c.withDefaults()
	args := []string{
		"--drain-time-s", strconv.Itoa(int(c.DrainTime.Seconds())),
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
		return address{}, fmt.Errorf("address %q: the port must be a number from 0 to 65535", s)
	}
	return address{host: host, port: uint32(n)}, nil
}
