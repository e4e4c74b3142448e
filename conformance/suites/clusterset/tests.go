package main

import "strings"

// Test is one test.
type Test struct {
	Name    string
	Profile Profile
	// Proves is the sentence that is true if the test passes.
	Proves string
	Needs  needs

	test func(*run)
}

// namespace depends only on the test's name, because importers may have to allow namespaces by
// name.
func (t *Test) namespace() string {
	return "clusterset-" + strings.ToLower(t.Name)
}

type needs uint8

const (
	wiring needs = 1 << iota // the import's field status.clusters
	third
	second // a second address of this machine
)

var tests = []Test{
	{Name: "ExportCreatesImports", Profile: Controller, test: exportCreatesImports,
		Proves: "A pool with the export annotation has an import of its name and namespace in each other member."},
	{Name: "ExportIsOptIn", Profile: Controller, test: exportIsOptIn,
		Proves: "A pool without the annotation, with another value of it, or with the mode alone is not exported."},
	{Name: "ImportNamesExporter", Profile: Controller, test: importNamesExporter,
		Proves: "An import lists the cluster that exports its pool."},
	{Name: "ExportedCondition", Profile: Controller, test: exportedCondition,
		Proves: "The pool has the condition Exported, of a parent that is the import, while it is exported, and " +
			"not after."},
	{Name: "EndpointWiring", Profile: Controller, Needs: wiring, test: endpointWiring,
		Proves: "Without a mode an entry is for EndpointMode: it has the target port, and the addresses and the port " +
			"of the picker's Service."},
	{Name: "WiringFollows", Profile: Controller, Needs: wiring, test: wiringFollows,
		Proves: "A changed target port of the pool reaches the import."},
	{Name: "ImportConditions", Profile: Controller, Needs: wiring, test: importConditions,
		Proves: "An import has the conditions Accepted, which is True, and Ready."},
	{Name: "WithdrawalCollectsImport", Profile: Controller, test: withdrawalCollectsImport,
		Proves: "The imports of a pool that loses its annotation are removed."},
	{Name: "DeletionCollectsImport", Profile: Controller, test: deletionCollectsImport,
		Proves: "The imports of a pool that is deleted are removed."},
	{Name: "ExportAgain", Profile: Controller, test: exportAgain,
		Proves: "A pool that was withdrawn can be exported again."},
	{Name: "TwoExporters", Profile: Controller, Needs: third, test: twoExporters,
		Proves: "Two clusters that export a pool of one name share one import, and the withdrawal of one leaves the " +
			"entry of the other."},
	{Name: "MutualExporters", Profile: Controller, test: mutualExporters,
		Proves: "A cluster that exports a pool itself imports the pool of another cluster of the same name."},
	{Name: "MissingNamespace", Profile: Controller, test: missingNamespace,
		Proves: "A member without the pool's namespace gets neither the namespace nor an import, and the condition " +
			"Exported is not True and names the member."},
	{Name: "LaterNamespace", Profile: Controller, test: laterNamespace,
		Proves: "A namespace that comes later gets the import, and the condition Exported becomes True."},
	{Name: "ImportOfAnother", Profile: Controller, test: importOfAnother,
		Proves: "An import that exists already keeps its labels and the entries of other controllers, also after the " +
			"withdrawal."},
	{Name: "DeletedImportReturns", Profile: Controller, test: deletedImportReturns,
		Proves: "An import that a user deletes is made again while its pool is exported."},

	{Name: "RequestFollowsPick", Profile: Gateway, Needs: wiring | second, test: requestFollowsPick,
		Proves: "A request goes to the endpoint that the exporting cluster's picker names."},
	{Name: "PickersAreNotMixed", Profile: Gateway, Needs: wiring, test: pickersAreNotMixed,
		Proves: "Of an import of two clusters, each request goes to the cluster whose picker was asked for it, and " +
			"both clusters get requests."},
	{Name: "PickerSeesTheBody", Profile: Gateway, Needs: wiring, test: pickerSeesTheBody,
		Proves: "The picker receives the request's whole body, and the model server too."},
	{Name: "ServedEndpoint", Profile: Gateway, Needs: wiring, test: servedEndpoint,
		Proves: "The picker receives, with the response's headers, the endpoint that has served."},
	{Name: "PickerRejects", Profile: Gateway, Needs: wiring, test: pickerRejects,
		Proves: "A client gets the 429 with which the only cluster's picker answers."},
	{Name: "PinnedCluster", Profile: Gateway, Needs: wiring, test: pinnedCluster,
		Proves: "A backendRef with the name IMPORT-CLUSTER leads to that cluster of the import alone."},
	{Name: "WeightedImports", Profile: Gateway, Needs: wiring, test: weightedImports,
		Proves: "Two imports in one rule get requests by the weights of their backendRefs; one with weight 0 " +
			"gets none."},
	{Name: "ParentMode", Profile: Gateway, Needs: wiring, test: parentMode,
		Proves: "In ParentMode a request goes to a gateway of the exporting cluster, and no picker is asked."},
	{Name: "StreamedResponse", Profile: Gateway, Needs: wiring, test: streamedResponse,
		Proves: "The first part of a streamed response arrives before its last one is sent."},
	{Name: "ChangedImport", Profile: Gateway, Needs: wiring, test: changedImport,
		Proves: "An import whose cluster is replaced leads to the new cluster alone, six times, and no request fails " +
			"meanwhile."},
	{Name: "MissingImport", Profile: Gateway, test: missingImport,
		Proves: "A route to an import that does not exist answers 500, and has the condition ResolvedRefs False with " +
			"reason BackendNotFound."},
	{Name: "EmptyImport", Profile: Gateway, Needs: wiring, test: emptyImport,
		Proves: "An import without clusters answers with an error of the server, and serves once it has one."},
	{Name: "GatewayIsAParent", Profile: Gateway, test: gatewayIsAParent,
		Proves: "A Gateway whose route names an import is among the parents of an entry of status.controllers, and " +
			"no more without the route; other entries stay."},
}
