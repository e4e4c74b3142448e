// Package probe finds out how endpoint pickers that are not ours answer, so that Envoy asks each in a way that it understands.
//
// The endpoint picker protocol wants FULL_DUPLEX_STREAMED: a picker sends back every byte of a body that it was sent. Some only
// acknowledge what they read (the inference extension's lwepp v1.6.0), and Envoy, in that mode, ends each such request with a 503.
// Nothing that a user writes tells the two apart, and no mode of Envoy suits both. So a Prober asks: once for each connection to a picker it
// shows it a request whose body is a question mark, as Envoy would, and looks at the form of the answer alone. A picker that
// reads bodies refuses it as no JSON; to one that does not, it is one more pick, which nobody follows.
//
// The same way it finds out whether a picker serves health on its port: not all do, and Envoy's gRPC check takes those that do not for down.
//
// cmd says where pickers are (Follow, Forget), runs Run, and hands what is found to the store (Config.OnAnswer), from where
// translation reads it. A picker of which nothing is known is taken to speak the protocol.
//
// Invariants: nothing of a user's requests is ever sent; a picker is asked again only after its connection was lost, or while it
// has not answered; Tell is called from one goroutine, and only with news.
//
// Tests: go test ./picker/probe
package probe
