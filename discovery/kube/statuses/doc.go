// Package statuses says what the status of each kind looks like for what is reported of an object: pure functions from a
// report and the status that there is to the status that there should be.
//
// discovery/kube has a Shape for each kind that has a status, reads with Take and writes what Make gives if it differs.
// A further kind is a call of Route, Ancestors or Conditions with where its type has the status.
//
// Invariants: what other controllers wrote is kept as it is, in its place: entries with another controllerName, and
// conditions whose type has a domain. A condition's lastTransitionTime moves only when its status does. What somebody
// saw a later generation for is left alone. The same input gives an equal status, so that nothing is written twice.
//
// Tests: go test ./discovery/kube/statuses
package statuses
