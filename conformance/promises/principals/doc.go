// Package principals tries every field that a principal writes with values that could hurt another
// principal, against the built binary with default settings and the real Envoy. A principal is an
// author of input to Penstock: a tenant, a hub, a member of a hub, a member, a remote picker, a
// model server, a client. A cell is a principal, a field and a value. The committed matrix.tsv has
// the outcome of each cell:
//
//	denied    the value does not get in: it does not parse, or validation rejects it, with a finding
//	finding   the value gets in, and a finding or a condition that is False names the object
//	bounded   the value gets in without a finding, and stays within the traffic of its author
//
// In all three cases the victim, another principal, loses nothing: its own servers answer each of
// its requests with 200 during the whole run, and its part of Envoy's configuration stays equal to
// the byte. A tenant comes after the victim, as a younger object does on Kubernetes: its
// namespaces' names sort later, because a folder has no times of creation.
//
// The files:
//
//	principals_test.go  the list of principals, and the test of the table
//	fields_test.go      walk: fields of a Go type, by reflection; class: the kind of a field
//	values_test.go      values: the values that apply to a class; bytes of a value
//	matrix_test.go      matrix.tsv: read, compare, rewrite
//	rig_test.go         penstock serve, an Envoy, and the victim with its requests
//	objects_test.go     principals that write Kubernetes objects: samples, and values in them
//	batch_test.go       many cells at once, each in a namespace of its own; their outcomes
//	harm_test.go        whether the rig finds harm
//	NAME_test.go        one principal: its types, the fields that it leaves out, and its test
//	testdata/NAME       objects in which a principal's fields are set
//	proto_test.go       walkProto: fields of a protobuf message; setProto: a value in one
//	source_test.go      fields that the code reads by name: headers, series, members of bodies, found by its syntax tree
//	beside_test.go      requests of a further victim, and what must not have changed at the end
//	NAMEcells_test.go   how one process plays a principal: its samples, and what it sends for a cell
//
// For a principal without objects, denied also means that the value has no effect: a stripped
// header, an ignored mutation, a request that gets an error. For a member, penstock clusters shows
// a finding. A client's or server's value that only its own server or client receives is bounded.
//
// To add a principal, write NAME_test.go with a principal and its test, and add the principal to
// the list. fields generates its cells from the types; the test gives every cell to Penstock, and
// records the observed outcome:
//
//	run := begin(t, start(t, nil), thePrincipal)
//	for _, c := range run.cells() { ...; run.see(c, denied, "what was printed") }
//	run.end()
//
// A new field of a type is a new cell, and fails the test until the table has its outcome. To
// decide a field, either name it in the principal's list of unread fields with the reason, or run
// PENSTOCK_GOLDEN=rewrite go test ./promises/principals, which writes the observed outcomes, and
// read the difference. CELLS=HTTPRoute.spec.hostnames selects cells by the beginning of their
// field, and prints the reason of each outcome. A new kind needs an object in testdata.
//
// Not covered: validation by the API server, which rejects more than a folder's reader does, and
// addresses that only Kubernetes denies (conformance/promises/attacks has both).
//
// Tests: go test ./promises/principals (two minutes), after make envoy.
package principals
