// Package world creates the measured configurations, as objects for a store and as files.
// Routes5000 has one Gateway with 50 HTTPS listeners, 5,000 hosts with one HTTPRoute each, and
// 1,000 backends of 10 endpoints each. Equal sizes give equal objects, except for certificates.
// Tests: cd conformance && go test ./bench/world
package world
