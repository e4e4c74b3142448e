// Package request reads the bodies of requests to model servers for the picker: once, in the chunks
// in which they arrive, and without a change. It copies no body, except gRPC messages and, with the
// strategy "chwbl", chat completions (spread.go).
//
// Scanner reads the chunks and returns Facts: the model, whether the response is streamed, its
// maximum length, and the prompt as a prefix.Chain. The prompt is hashed in the server's order:
// tools and instructions first, wherever they are in the body, then the messages' roles and
// contents. Strings are hashed as written in JSON, because a client writes a text in one way. An
// image takes no tokens; its hash is part of the chain.
//
// KindOf derives the API from the request's path. For an unknown API, only the model is read.
// members.go has the table of members; a new API or member is a row there.
//
// Spread makes the hash for the strategy "chwbl". Its reader of chat completions is strict about
// structure, because the key of a broken one would be arbitrary.
//
// Scanner does not validate: a body that is not a JSON object has no facts, and the model server
// responds to it. Package extproc feeds the Scanner.
//
// Tests: go test ./picker/request. FuzzScanner_EqualsEncodingJSON compares with encoding/json over
// every split into chunks.
package request
