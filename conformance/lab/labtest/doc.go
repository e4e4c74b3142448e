// Package labtest has helpers for tests in a lab: a lab for a package's tests (Main), a namespace
// for a test (Place), waiting for a condition (Until) or a rollout (RolledOut), and requests (Get,
// Load). It does not depend on Penstock. The tests of `make test-lab` use it.
package labtest
