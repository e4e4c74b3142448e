// Package world creates the measured configurations, as objects and as files. Equal sizes give
// equal objects, except for certificates. Tests: cd conformance && go test ./bench/world
package world
