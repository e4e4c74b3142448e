package app

import (
	"net"
	"net/url"

	"k8s.io/client-go/rest"

	"github.com/penstock-project/penstock/picker/authz/jwks"
	"github.com/penstock-project/penstock/translator/addresses"
)

// Fetch limits the hosts from which keys of JSON Web Tokens are fetched.
type Fetch struct {
	Hosts   []string // HOST, at port 443, or HOST:PORT
	AnyHost bool
}

// fetch configures how keys of JSON Web Tokens are fetched. The zero Fetch allows no host.
func (c Config) fetch(w wiring) jwks.Config {
	// Allowed ranges do not apply, because the operator names the hosts.
	ranges := addresses.Ranges{Loopback: c.Addresses.Loopback}
	lookup := c.Addresses.lookup()
	if lookup == nil {
		lookup = net.DefaultResolver
	}
	return jwks.Config{Hosts: c.Fetch.Hosts, AnyHost: c.Fetch.AnyHost, Never: ranges.Never, Forms: addresses.Forms,
		APIServers: w.apiServers, APIEndpoints: w.apiEndpoints, Lookup: lookup.LookupNetIP, Now: elapsed()}
}

func apiServers(c *rest.Config) []string {
	u, err := url.Parse(c.Host)
	if err != nil || u.Host == "" { // c.Host may be HOST:PORT alone
		if u, err = url.Parse("https://" + c.Host); err != nil {
			return nil
		}
	}
	port := u.Port()
	if port == "" {
		port = map[bool]string{true: "80", false: "443"}[u.Scheme == "http"]
	}
	return []string{net.JoinHostPort(u.Hostname(), port)}
}
