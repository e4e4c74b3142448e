// Package principals tests every field that a principal can write. A principal is an author of
// input: a tenant, a hub, a member of a hub, a member of a set, a remote picker, a model server, a
// client. Tests send values that could harm other principals to the built binary with default
// settings and the real Envoy. A cell is a principal, a field and a value. matrix.tsv has the
// outcome of each cell:
//
//	denied   the value does not get in, or has no effect
//	finding  the value gets in, and a finding or a condition that is False names the object
//	bounded  the value gets in without a finding, and stays within the traffic of its author
//
// With each outcome another principal, the victim, loses nothing: its servers answer all its
// requests with 200, and its part of Envoy's configuration keeps the same bytes. A tenant's
// namespaces sort after the victim's, because names decide precedence: objects in a folder have no
// age.
//
// Tests find fields by reflection (fields_test.go, proto_test.go) and by name in the code
// (source_test.go). To add a principal, write NAME_test.go with a principal and its test, and add
// the principal to the variable principals. The test sends the value of every cell to Penstock, and
// records the outcome:
//
//	run := begin(t, start(t, nil), thePrincipal)
//	for _, c := range run.cells() { ...; run.see(c, denied, "what was printed") }
//	run.end()
//
// A new field of a type is a new cell, and fails the test until the table has its outcome. To
// decide it, either name the field in the principal's list of unread fields, with the reason; or
// run PENSTOCK_GOLDEN=rewrite go test ./promises/principals, which writes the observed outcomes,
// and review the difference. CELLS=HTTPRoute.spec.hostnames selects the cells whose field begins
// with this text, and prints the reason of each outcome. A new kind needs an object in testdata.
//
// conformance/promises/attacks tests validation by the API server, and addresses that only
// Kubernetes denies. Tests: go test ./promises/principals (two minutes), after make envoy.
package principals
