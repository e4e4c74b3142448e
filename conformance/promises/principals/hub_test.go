package principals

import (
	"slices"
	"testing"

	"github.com/penstock-project/penstock/discovery/store"
)

// hub is penstock hub or another implementation. It writes InferencePoolImports and their status to
// a member's API server. It also writes the condition Exported of InferencePools, which Penstock
// does not read. It may list PoolExports, but only a member's Penstock writes them.
var hub = principal{"hub", func(t testing.TB) []field {
	return fieldsOf(t, hubTables(t), walker{classes: hubClasses, unread: slices.Concat(metadata, hubUnread)})
}}

const aboutParents = "for people: Penstock replaces its own entry, and reads no other"

var hubUnread = []unread{
	{"InferencePoolImport.status.controllers[].parents", aboutParents},
	{"InferencePoolImport.status.controllers[].conditions", aboutParents},
	{"InferencePoolImport.status.conditions[].observedGeneration", aboutParents},
	{"InferencePoolImport.status.conditions[].lastTransitionTime", aboutParents},
	{"InferencePoolImport.status.clusters[].conditions[].observedGeneration", aboutParents},
	{"InferencePoolImport.status.clusters[].conditions[].lastTransitionTime", aboutParents},
	{"InferencePoolImport.status.clusters[].parents[].conditions", aboutParents},
}

var hubClasses = map[string]class{
	"name": name, "namespace": namespace, "hostname": host, "address": address, "addresses[]": address,
	"podCIDRs[]": address,
	"labels[]":   label, "endpointPicker.pool": name, "region": label, "zone": label,
}

// hubTables returns the kinds that a hub writes. The tenant's lists (tenantWrites, tenantLeaves)
// have the reasons for all other kinds.
func hubTables(t testing.TB) []store.Kind {
	others := map[string]string{}
	for _, table := range store.Tables() {
		others[table.Kind()] = "see tenantWrites and tenantLeaves"
	}
	return kinds(t, []string{"InferencePoolImport"}, others)
}

func TestPrincipals_HubChangesNoOtherRequests(t *testing.T) {
	r := begin(t, start(t, nil), hub)
	r.apply("hub", hubTables(t))
	r.end()
}
