package inference

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
)

func trusted(r store.Reader, member string) bool {
	m, ok := store.Memberships.Get(r, store.OwnMembership)
	return ok && slices.ContainsFunc(m.Members, func(o store.Member) bool { return o.Name == member })
}

func unusableHostname(m *model.ImportMember, hostname string, others bool) string {
	_, notIP := netip.ParseAddr(hostname)
	switch {
	case hostname != "" && (notIP == nil || len(validation.IsDNS1123Subdomain(hostname)) > 0):
		return fmt.Sprintf("%.100q is not a host name", hostname)
	case others && hostname != m.Hostname:
		return fmt.Sprintf("it has hostname %q, and another one of the cluster has %q", hostname, m.Hostname)
	}
	m.Hostname = hostname
	return ""
}
