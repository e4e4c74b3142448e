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

// ProfileKey is the node metadata field of Config.Profile.
const ProfileKey = "penstock.dev/profile"

// Config has the settings that differ between Envoys.
type Config struct {
	// Gateway is the "namespace/name" of the proxy's Gateway. Required.
	Gateway string
	// NodeID identifies the proxy within its Gateway. Default: Gateway.
	NodeID string
	// Zone enables zone-aware load balancing. Optional.
	Zone string
	// Profile identifies this bootstrap's capabilities. Default: DefaultProfile.
	Profile string

	// ADS are control planes: "host:port" or "unix:PATH". Required.
	ADS []string
	// Without TLS the connection to the control plane is cleartext.
	TLS *TLS

	// Token is a file with a bearer token, read again when it is replaced. Requires TLS and
	// Secrets.
	Token string
	// Secrets is the proxy's folder with SecretFiles, to load a new CA, certificate or token
	// without a restart.
	Secrets string

	// Ready is the "ip:port" of ReadyPath.
	Ready string
	// Extra is a bootstrap in JSON to merge in.
	Extra []byte
	// Admin is "ip:port" (0: any port) or "unix:PATH". Default: 127.0.0.1:0.
	Admin string
	// MaxHeapBytes is the maximum heap size. Default: 2 GiB. Above 97 %, Envoy answers requests
	// with 503.
	MaxHeapBytes uint64
	// MaxConnections limits downstream connections. Default: 50,000.
	MaxConnections int64

	// DrainTime is the drain time of a removed filter chain. Default: 10 min.
	DrainTime time.Duration
	// Concurrency is the number of worker threads; 0: one per core.
	Concurrency int
}

// TLS names files, which Envoy watches only with Config.Secrets.
type TLS struct {
	CA   string // PEM. Required.
	Cert string // PEM. Optional, with Key.
	Key  string // PEM
	// ServerName is the SNI. Default: the first address's host.
	ServerName string
}

// DefaultProfile identifies the requirements of this version's listeners. Raise it when their list
// of HTTP filters changes, or when they need a setting that older bootstraps lack. Then serve older
// profiles their previous resources. Otherwise an upgrade drains all streams at once, or breaks
// older proxies. The filter uploads did not raise it, because older proxies need its protection,
// too.
const DefaultProfile = "1"

const DefaultDrainTime = 10 * time.Minute

// Args returns command-line arguments that have no field in the bootstrap.
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
