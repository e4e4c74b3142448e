// Package demo demonstrates Penstock on one machine: two "clusters", each a penstock process with
// its own Envoy and simulated model servers, and ten steps that check themselves.
//
// Only `penstock demo` calls it. It runs the penstock binary as a user would, and reads the reasons
// of decisions from `penstock explain` and from recorded picks. The YAML is below config/, one file
// for each step. A step begins by writing its file into the folder that penstock watches.
//
// Files: demo.go (the order of the steps), stage.go (what runs), process.go (one cluster),
// config.go (the YAML), client.go (requests), picks.go (recorded picks), steps.go, spill.go,
// caches.go and processor.go (the steps), page.go (the output). clusterset.go is the demo of
// cluster sets: three clusters, and six steps; its YAML is below set/.
//
// Invariants: every address is on loopback and every port a free one, so that demos can run side by
// side; when Run returns, its processes and files are gone; no step reports a result that it has
// not observed.
//
// Tests: go test ./cmd/penstock/internal/demo for checks and output; go test -run Demo
// ./cmd/penstock runs the whole demo on the real Envoy.
package demo
