// Package probe determines how external pickers answer, so that Envoy calls each in a body mode
// that the picker supports.
//
// The endpoint picker protocol requires FULL_DUPLEX_STREAMED, in which a picker sends back every
// byte of a body. Some pickers only acknowledge bodies (the inference extension's lwepp v1.6.0);
// with such a picker Envoy ends each request in that mode with a 503. No user configuration
// distinguishes the two kinds, and no mode of Envoy suits both. So a Prober sends one request per
// connection, as Envoy would, whose body is a question mark. It examines only the form of the
// answer. A picker that reads bodies rejects the body as invalid JSON; for other pickers the
// request is an unused pick.
//
// The Prober also finds whether a picker serves health on its port, because Envoy's gRPC health
// check treats a picker without it as down.
//
// The Prober keeps its connection to each picker. So it detects an unreachable picker, and at once
// a picker that has ended (Answer.Lost): Envoy's health check takes up to 2 s, in which the request
// of each call ends with a 503. A health check twice a second on that connection detects a frozen
// picker (Answer.Frozen); no check of Envoy ends the open calls of a frozen picker. The Prober also
// queries a picker's separate health port (Answer.Down), over TLS and with a credential if
// required. For a picker that Envoy does not call, it queries only this port (Picker.HealthOnly).
//
// cmd configures the pickers (Set, Remove), runs Run, and stores the results (Config.OnAnswer) for
// translation. A picker without a result is assumed to follow the protocol.
//
// Invariants: no part of a user's request is sent. A picker is probed again only after its
// connection was lost, or while it has not answered. OnAnswer is called from one goroutine, and
// only with changes.
//
// Tests: go test ./picker/probe
package probe
