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
)

// ProfileKey is the field of the node's metadata that carries Config.Profile.
const ProfileKey = "penstock.dev/profile"

// Config is what differs from one Envoy to another.
type Config struct {
	// Gateway is "namespace/name" of the Gateway that it serves; it becomes the node's cluster. Required.
	Gateway string
	// NodeID tells the gateway's proxies apart. Default: Gateway.
	NodeID string
	// Zone is where the proxy runs, for zone-aware load balancing. Optional.
	Zone string
	// Profile is what this bootstrap can take (see xds/cache). Default: DefaultProfile.
	Profile string

	// ADS are the control plane's addresses: "host:port", or "unix:PATH". Two or more let a proxy move over in
	// milliseconds when one goes away. Required.
	ADS []string
	// TLS secures the connection to the control plane. Nil: cleartext, for loopback and sockets.
	TLS *TLS

	// Token is the file with the bearer token that proves to the control plane which proxy this is; it is read again
	// whenever it is replaced. Needs TLS, which keeps it secret, and Secrets.
	Token string
	// Secrets is the folder with the files that SecretFiles makes, as the proxy sees it. With it, a new CA, certificate or
	// token is taken without a restart; without it they are read once. Optional.
	Secrets string

	// Ready is "ip:port" where ReadyPath tells whether the proxy is ready. Optional.
	Ready string
	// Extra is a bootstrap as JSON that is merged over this one. Optional.
	Extra []byte
	// Admin is the admin interface: "ip:port" (port 0: any free one) or "unix:PATH". Default: 127.0.0.1:0.
	Admin string
	// Tags are added to every statistic. Optional.
	Tags map[string]string
	// MaxHeapBytes is the heap at which requests are refused from 97 % on. Default: 2 GiB.
	MaxHeapBytes uint64
	// MaxConnections is the limit of downstream connections. Default: 50,000.
	MaxConnections int64

	// DrainTime is how long streams of a filter chain that is gone may go on; an argument of the command line.
	// Default: 10 minutes.
	DrainTime time.Duration
	// Concurrency is the number of worker threads; an argument of the command line. 0: one per core.
	Concurrency int
}

// TLS names files. Envoy watches them only with Config.Secrets.
type TLS struct {
	CA   string // PEM; verifies the control plane. Required.
	Cert string // PEM; the proxy's own certificate. Optional, with Key.
	Key  string // PEM
	// ServerName is asked for (SNI) and must be among the certificate's names. Default: the first address's host.
	ServerName string
}

// DefaultProfile names the listeners that this version makes: their fixed list of filters. Raise it when that changes, and
// serve the ones before to proxies of the profile before: else the upgrade of a control plane drains every stream at once.
const DefaultProfile = "1"

// DefaultDrainTime is Config.DrainTime where none is given.
const DefaultDrainTime = 10 * time.Minute

// Args are the arguments of Envoy's command line that belong to the bootstrap but have no field in it.
func (c Config) Args() []string {
	c = c.withDefaults()
	args := []string{
		"--drain-time-s", strconv.Itoa(int(c.DrainTime.Seconds())),
		// A chain that is gone stops taking new requests at once; the default would refuse them bit by bit.
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

// validate says in the user's words what is wrong.
func (c Config) validate() error {
	ns, name, ok := strings.Cut(c.Gateway, "/")
	if !ok || ns == "" || name == "" || strings.Contains(name, "/") {
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
