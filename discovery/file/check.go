package file

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/penstock-project/penstock/discovery/status/report"
)

type checks struct{ found []mistake }

func wrong(field, problem, fix string) mistake {
	return mistake{severity: report.Error, field: field, problem: problem, fix: fix}
}

func (c *checks) wrong(field, problem, fix string) {
	c.found = append(c.found, wrong(field, problem, fix))
}

func (c *checks) port(field string, n int32) {
	if n < 1 || n > 65535 {
		c.wrong(field, fmt.Sprintf("must be from 1 to 65535, is %d", n), "write a port number from 1 to 65535")
	}
}

const withoutZone = "write an address that all machines know, without % and what follows: Envoy connects to no other"

func (c *checks) ip(field, s string) {
	if ip, err := netip.ParseAddr(s); err == nil && ip.Zone() != "" {
		c.wrong(field, "must be an IP address without a zone, is "+quote(s), withoutZone)
	} else if err != nil {
		c.wrong(field, "must be an IP address, is "+quote(s), "write an IPv4 or IPv6 address without a port")
	}
}

func (c *checks) cidr(field, s string) {
	if _, err := netip.ParsePrefix(s); err != nil {
		c.wrong(field, "must be a CIDR range, is "+quote(s), "write a range such as 10.244.0.0/16")
	}
}

func (c *checks) cidrs(field string, list []string) {
	for i, cidr := range list {
		c.cidr(at(field, i), cidr)
	}
}

func (c *checks) host(field, s string) {
	if len(validation.IsDNS1123Subdomain(strings.ToLower(strings.TrimSuffix(s, ".")))) > 0 {
		c.wrong(field, "must be a host name, is "+quote(s),
			"write a name such as llm.example.com, without scheme or port")
	}
}

func (c *checks) ipOrHost(field, s string) {
	if ip, err := netip.ParseAddr(s); err == nil {
		if ip.Zone() != "" {
			c.wrong(field, "must be an IP address without a zone, is "+quote(s), withoutZone)
		}
		return
	}
	// A host name of digits and dots is a mistyped address.
	if len(validation.IsDNS1123Subdomain(strings.ToLower(strings.TrimSuffix(s, ".")))) > 0 ||
		strings.Trim(s, "0123456789.") == "" {
		c.wrong(field, "must be an IP address or a host name, is "+quote(s),
			"write 192.0.2.7 or llm.example.com, without scheme or port")
	}
}

func (c *checks) oneOf(field, s string, allowed ...string) {
	if slices.Contains(allowed, s) {
		return
	}
	allowed = slices.DeleteFunc(allowed, func(a string) bool { return a == "" })
	c.wrong(field, "must be one of "+strings.Join(allowed, ", ")+", is "+quote(s), suggest(s, allowed))
}

func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func quote(s string) string { return strconv.Quote(s) }

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
