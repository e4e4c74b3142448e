// Package attacks runs the programs of attackers against Penstock as a user runs it: the built
// binary on a folder, with the real Envoy. SECURITY.md lists the attacks by attacker. NAME_test.go
// has one attack. NAME.go has the program of an attack that conformance/bench also measures. To add
// an attack, write a test that starts a site (rig_test.go), and attacks during traffic. The
// traffic's end fails the test if a request was lost:
//
//	s := start(t, nil)
//	traffic := s.traffic()
//	... // the attack
//	traffic.end()
//
// Tests do not run in parallel, because they compare memory. Run them with `make test-lab`, or go
// test ./promises/attacks after `make envoy`.
package attacks
