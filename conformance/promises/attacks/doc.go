// Package attacks attacks Penstock as users run it: the built binary on a folder, with the real
// Envoy. SECURITY.md lists the attacks by attacker. NAME_test.go has one attack. If
// conformance/bench measures it, too, NAME.go has the attacker's program. To add an attack, write a
// test that starts a site (rig_test.go) and attacks it during traffic. traffic.end fails the test
// if a request was lost:
//
//	s := start(t, nil)
//	traffic := s.traffic()
//	... // the attack
//	traffic.end()
//
// Tests do not run in parallel, because they compare memory. Run them with `make test-lab`, or go
// test ./promises/attacks after `make envoy`.
package attacks
