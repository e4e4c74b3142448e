package jwks

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	dialTimeout  = 3 * time.Second
	maxAddresses = 4
)

// metadata lists the clouds' metadata servers, except link-local addresses: AWS and Google over
// IPv6, Alibaba, Azure, Oracle.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254"), netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"),
}

func (f *Fetcher) allowed(u *url.URL) error {
	at := endpointOf(u)
	if f.cfg.AnyHost {
		return nil
	}
	for _, h := range f.cfg.Hosts {
		host, port, err := net.SplitHostPort(h)
		if err != nil { // without a port
			host, port = strings.Trim(h, "[]"), "443"
		}
		if strings.EqualFold(host, at.host) && port == at.port {
			return nil
		}
	}
	named := net.JoinHostPort(at.host, at.port)
	if at.port == "443" {
		named = at.host
	}
	return &Problem{fmt.Sprintf("host %s is not in --fetch-hosts", named),
		"ask the operator of Penstock to add it (fetchHosts of the chart), or write the keys to jwks.inline"}
}

// dialer returns a function that connects to the host of a URL. The function resolves the host
// once, checks each address, and connects to a checked address. So DNS rebinding has no effect.
func (f *Fetcher) dialer(s Source, u *url.URL) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, text, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return nil, err
		}
		ips, err := f.resolve(ctx, host)
		if err != nil {
			return nil, err
		}
		var last error
		for _, ip := range ips[:min(len(ips), maxAddresses)] {
			at := netip.AddrPortFrom(ip, uint16(port))
			if last = f.reachable(ctx, s, u, at); last != nil {
				continue
			}
			var conn net.Conn
			d := net.Dialer{Timeout: dialTimeout}
			if conn, last = d.DialContext(ctx, network, at.String()); last == nil {
				return conn, nil
			}
		}
		return nil, last
	}
}

func (f *Fetcher) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	ips, err := f.cfg.Lookup(ctx, "ip", host)
	if err == nil && len(ips) == 0 {
		err = fmt.Errorf("host %s has no address", host)
	}
	out := make([]netip.Addr, len(ips))
	for i, ip := range ips {
		out[i] = ip.Unmap()
	}
	return out, err
}

func (f *Fetcher) reachable(ctx context.Context, s Source, u *url.URL, at netip.AddrPort) error {
	const another = "write the URL of another server, or the keys to jwks.inline"
	ip := at.Addr()
	kind := f.cfg.Never(ip)
	forms := []netip.Addr{ip}
	if f.cfg.Forms != nil {
		forms = f.cfg.Forms(ip)
	}
	for _, form := range forms {
		switch {
		case kind != "":
		case slices.Contains(metadata, form):
			kind = "the address of a metadata server"
		case !s.issues(u) && f.isAPIServer(ctx, netip.AddrPortFrom(form, at.Port())):
			kind = "the address of the API server, which is not the issuer"
		}
	}
	if kind != "" {
		return &Problem{fmt.Sprintf("nothing is fetched from the address %s of host %s: it is %s", ip, u.Hostname(),
			kind), another}
	}
	if u.Scheme == "http" && !ip.IsLoopback() {
		return &Problem{"keys that arrive over http could be anyone's: http is for loopback addresses", "write https"}
	}
	return nil
}

func (f *Fetcher) isAPIServer(ctx context.Context, at netip.AddrPort) bool {
	for _, address := range f.cfg.APIServers {
		host, port, err := net.SplitHostPort(address)
		if err != nil || port != strconv.Itoa(int(at.Port())) {
			continue
		}
		ips, err := f.resolve(ctx, host)
		if err != nil || slices.Contains(ips, at.Addr()) {
			return true // without the lookup, the address may be the API server's
		}
	}
	if f.cfg.APIEndpoints == nil {
		return false
	}
	endpoints, err := f.cfg.APIEndpoints(ctx)
	return err != nil || slices.Contains(endpoints, at)
}
