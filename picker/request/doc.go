// Package request reads the bodies of requests to model servers for the picker. It reads each body
// once, in chunks as they arrive, without changing it. It copies no body, except gRPC messages and,
// with the strategy "chwbl", chat completions (spread.go).
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
// Spread computes the hash for the strategy "chwbl". Its reader of chat completions rejects broken
// structure, because the key of a broken body would be arbitrary.
//
// Scanner does not validate. A body that is not a JSON object has no facts; the model server
// reports the error. Package extproc passes the chunks to the Scanner.
//
// Tests: go test ./picker/request. FuzzScanner_EqualsEncodingJSON compares with encoding/json, for
// every split of a body into chunks.
package request
