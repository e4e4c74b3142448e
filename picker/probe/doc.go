// Package probe determines how external pickers answer, so that Envoy calls each in a body mode
// that the picker supports.
//
// The endpoint picker protocol requires FULL_DUPLEX_STREAMED: a picker sends back every byte of a
// body. Some only acknowledge bodies (the inference extension's lwepp v1.6.0); Envoy in that mode
// then ends each request with a 503. No user configuration distinguishes the two, and no mode of
// Envoy suits both. So a Prober sends one request per connection whose body is a question mark, as
// Envoy would, and examines only the form of the answer. A picker that reads bodies rejects it as
// invalid JSON; for others it is an unused pick.
//
// The Prober also finds whether a picker serves health on its port, because Envoy's gRPC health
// check treats pickers without it as down.
//
// It keeps its connection to each picker, so it detects unreachable pickers, and at once an ended
// one (Answer.Lost): Envoy's health check takes up to 2 s, in which each call of the picker costs
// its request a 503. A health check twice a second on that connection detects a frozen picker
// (Answer.Frozen), whose open calls no check of Envoy's ends. It also queries a picker's separate
// health port (Answer.Down), over TLS and with a credential if required. For a picker that Envoy
// does not ask, it queries only this port (Picker.HealthOnly).
//
// cmd configures the pickers (Set, Remove), runs Run, and stores the results (Config.OnAnswer) for
// translation. A picker without a result is assumed to follow the protocol.
//
// Invariants: no part of a user's request is ever sent; a picker is probed again only after its
// connection was lost, or while it has not answered; OnAnswer is called from one goroutine, and
// only with changes.
//
// Tests: go test ./picker/probe
package probe
