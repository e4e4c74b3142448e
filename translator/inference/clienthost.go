package inference

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/translator/services"
)

// ClientHost is a gateway of another cluster to which requests go with the client's Host header.
type ClientHost struct {
	Field   string // JSON path of the missing parents[].hostname
	Gateway string // "namespace/name"; "" if the import does not name the gateway
}

// ClientHosts finds the gateways of an import that get the Host of clients' requests, because the
// import names no host for them.
type ClientHosts struct {
	r       store.Reader
	members []model.ImportMember
	entries []inferenceapi.ImportedCluster
}

// NewClientHosts returns the ClientHosts of the import with a key, which need not exist.
func NewClientHosts(r store.Reader, key string) *ClientHosts {
	c := &ClientHosts{r: r}
	if imp, ok := Import(r, key); ok {
		obj, _ := gatewayapi.Imported(r, key)
		c.members, c.entries = imp.Members, obj.Status.Clusters
	}
	return c
}

// At returns the gateway of an exporting cluster at an address, or the first gateway if none has
// the address. It returns false if the gateways receive another Host: a hostname, or the pool's
// authority (peer listeners).
func (c *ClientHosts) At(member string, at netip.AddrPort) (out ClientHost, ok bool) {
	m := slices.IndexFunc(c.members, func(m model.ImportMember) bool { return m.Name == member })
	i := slices.IndexFunc(c.entries, func(e inferenceapi.ImportedCluster) bool { return e.Name == member })
	if m < 0 || i < 0 || c.members[m].Cluster.Kind != model.ParentKind || c.members[m].Problem != "" ||
		c.members[m].Hostname != "" {
		return out, false
	}
	for j, p := range c.entries[i].Parents {
		has := hasAddress(c.r, p.Service, at)
		if p.Peer || ok && !has {
			continue
		}
		out, ok = ClientHost{Field: fmt.Sprintf("status.clusters[%d].parents[%d].hostname", i, j)}, true
		if p.Name != "" {
			out.Gateway = objectid.Join(p.Namespace, p.Name)
		}
		if has {
			break
		}
	}
	return out, ok
}

func hasAddress(r store.Reader, list []inferenceapi.ServiceImport, at netip.AddrPort) bool {
	for _, s := range list {
		if len(s.Ports) == 0 || uint16(s.Ports[0].Number) != at.Port() {
			continue
		}
		for _, a := range s.Addresses {
			if slices.Contains(services.Mention(r, a).Addresses, at.Addr()) {
				return true
			}
		}
	}
	return false
}
