// Package world creates the measured configurations, as objects for a store and as files.
//
// "5,000 routes" is Routes5000: one Gateway with 50 HTTPS listeners, 5,000 hosts with one HTTPRoute
// each, and 1,000 backends of 10 endpoints each, half of them Services with an EndpointSlice, half
// InferencePools with ModelServers. "100 routes" is Routes100: one listener, 100 hosts, 20
// backends. Cleartext5000 is 5,000 hosts on one cleartext port.
//
// A world depends on its size only: equal sizes give equal objects, except for certificates.
//
// Tests: cd conformance && go test ./bench/world
package world
