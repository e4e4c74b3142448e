// Package probe finds out how external pickers answer, so that Envoy calls each in a body mode that
// the picker supports.
//
// The endpoint picker protocol requires FULL_DUPLEX_STREAMED: a picker sends back every byte of a
// body that it receives. Some only acknowledge what they read (the inference extension's lwepp
// v1.6.0), and Envoy in that mode ends each such request with a 503. No configuration of the user
// distinguishes the two, and no mode of Envoy suits both. So a Prober probes: once for each
// connection to a picker it sends a request whose body is a question mark, as Envoy would, and
// looks only at the form of the answer. A picker that reads bodies rejects it as invalid JSON; for
// one that doesn't, it is one more pick, which is never used.
//
// The Prober also finds out whether a picker serves health on its port: not all do, and Envoy's
// gRPC health check treats those that don't as down.
//
// It keeps its connection to each picker, so it knows as well which picker can't be connected to,
// and at once which one has ended (Answer.Lost): Envoy's health check takes up to 2 s, in which
// each call of the picker costs its request a 503. On that connection it asks for a sign of life
// twice a second, so it knows which picker has frozen (Answer.Frozen): no check of Envoy's ends the
// calls that such a picker does not answer. And it asks the port of its own that a picker may serve
// health at (Answer.Down), over TLS and with a credential if that is demanded. Of a picker that
// Envoy does not ask, this port alone is asked (Picker.HealthOnly).
//
// cmd configures which pickers to probe (Set, Remove), runs Run, and stores the results
// (Config.OnAnswer) for translation. A picker without a result is assumed to follow the protocol.
//
// Invariants: no part of a user's request is ever sent; a picker is probed again only after its
// connection was lost, or while it has not answered; OnAnswer is called from one goroutine, and
// only with changes.
//
// Tests: go test ./picker/probe
package probe
