package inference

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/translator/services"
)

// mostNames limits the host names of an exporting cluster, which controls their number.
const mostNames = 32

type hostNames struct {
	used  map[string]bool
	first string
	all   int
}

func namesOf(c *inferenceapi.ImportedCluster) hostNames {
	out, seen := hostNames{used: map[string]bool{}}, map[string]bool{}
	add := func(list []inferenceapi.ServiceImport) {
		for _, s := range list {
			for _, a := range s.Addresses {
				if _, err := netip.ParseAddr(a); err == nil || addresses.Neither(a) != "" {
					continue
				}
				name := strings.ToLower(a)
				if seen[name] {
					continue
				}
				seen[name] = true
				if out.all++; out.all <= mostNames {
					out.used[name] = true
				} else if out.first == "" {
					out.first = a
				}
			}
		}
	}
	if c.EndpointPicker != nil {
		add(c.EndpointPicker.Service)
	}
	for _, p := range c.Parents {
		add(p.Service)
	}
	return out
}

func (n hostNames) leavesOut(address string) bool {
	if n.all <= mostNames || n.used[strings.ToLower(address)] {
		return false
	}
	_, err := netip.ParseAddr(address)
	return err != nil && addresses.Neither(address) == ""
}

func (n hostNames) findings(imp *model.Import, cluster, field string) []report.Finding {
	if n.all <= mostNames {
		return nil
	}
	return []report.Finding{
		errorOn(imp.Ref, field,
			fmt.Sprintf(
				"cluster %s: it has %d host names, and %d are looked up: %.253s and those after it are not used",
				cluster, n.all, mostNames, n.first),
			fmt.Sprintf("have it exported with %d host names at most, or with IP addresses", mostNames)),
	}
}

func useNames(r store.Reader, key string) {
	imp, ok := gatewayapi.Imported(r, key)
	if !ok {
		return
	}
	for i := range imp.Status.Clusters {
		for name := range namesOf(&imp.Status.Clusters[i]).used {
			services.Lookup(r, name)
		}
	}
}
