// Package translator turns objects into Envoy's resources, our picker's pools and a report about each object. It exists
// once: Update translates a change, and a fresh Translator that gets the whole store at once returns the same, byte for
// byte.
//
// tables.go lists what is computed, in order, and is the map of the whole: read it first. Each group of tables is declared
// in the file of its name; keys.go has the keys that have parts:
//
//	gateways.go    Gateways and the certificates that they present       pools.go      pools, imports, their members
//	routes.go      candidates, contests, attachments                      hosts.go      virtual hosts, route configurations
//	listeners.go   listeners, chains that hand on connections             hops.go       internal listeners in front of pools
//	clusters.go    clusters, assignments, external pickers                secrets.go    SDS secrets
//	reports.go     reports about objects                                 panics.go     rows whose computation panics
//
// cluster.go and assignment.go decide one cluster and its endpoints; explain*.go follow one request. gatewayapi and
// inference turn objects into the model, services turns Services and selectors into endpoints, envoy turns the model into
// protos, graph decides which rows to recompute.
//
// cmd makes one Translator, calls Update after each commit to the store, and hands the Output on: resources to
// xds/cache, pools to the picker, reports to discovery/status.
//
// Invariants: translation is pure (no I/O, clock, log or randomness); names come from identity; equal worlds give equal
// bytes.
//
// Tests: go test ./translator
package translator
