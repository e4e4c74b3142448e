// Package probe determines how external pickers answer request bodies, so that Envoy calls each
// picker in a body mode that the picker supports. cmd sets the pickers, and passes the results to
// the translator.
//
// The endpoint picker protocol requires the body mode FULL_DUPLEX_STREAMED, in which a picker sends
// back every byte of a body. Some pickers only acknowledge bodies (the inference extension's lwepp
// v1.6.0). A Prober sends each picker one request, whose body is a question mark, and examines the
// form of the answer. It also keeps a connection to the picker. So it detects sooner than Envoy's
// health checks that a picker has ended (Answer.Lost) or hangs (Answer.Frozen).
//
// Invariants: a probe contains no part of a user's request. A picker without a result counts as
// following the protocol. A Prober probes a picker again only after a lost connection, or while
// the picker has not answered. One goroutine calls OnAnswer, and only with changes.
package probe
