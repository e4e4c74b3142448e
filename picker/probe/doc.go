// Package probe determines how external pickers answer, so that Envoy calls each picker in a body
// mode that the picker supports. cmd sets the pickers, and stores the results for translation.
//
// The endpoint picker protocol requires FULL_DUPLEX_STREAMED, in which a picker sends back every
// byte of a body. Some pickers only acknowledge bodies (the inference extension's lwepp v1.6.0). A
// Prober sends each picker one request, whose body is a question mark, and examines the form of the
// answer. It also keeps a connection to the picker, and detects sooner than Envoy's health checks
// that a picker has ended (Answer.Lost) or hangs (Answer.Frozen).
//
// Invariants: no part of a user's request is sent. A picker without a result is assumed to follow
// the protocol. A picker is probed again only after the loss of its connection, or while it has not
// answered. OnAnswer is called from one goroutine, and only with changes.
package probe
