// Package attacks runs the programs of attackers against Penstock as a user runs it: the built
// binary on a folder, with the real Envoy. Each attack is a test in a file of its own. SECURITY.md
// lists the attacks by attacker, with their effects. The files:
//
//	rig_test.go   a site: penstock serve, an Envoy and a model server; its files, requests, logs
//	              and memory
//	NAME_test.go  one attack on a site; a test that needs a cluster has the build tag
//	              lab
//	NAME.go       the program of an attack that conformance/bench also measures
//
// To add an attack, write a file with a test. Its name is the attacked feature's term, an
// underscore, and the harm to a user. Start a site, send traffic, attack, and end the traffic. The
// end fails the test if a request was lost:
//
//	s := start(t, nil)
//	traffic := s.traffic()
//	... // the attack
//	traffic.end()
//
// Tests do not run in parallel, because they compare memory. Run them with `make test-lab`, or go
// test ./promises/attacks after `make envoy`.
package attacks
