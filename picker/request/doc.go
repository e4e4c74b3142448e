// Package request reads the bodies of requests to model servers for the picker: once, in the chunks
// in which they arrive, and without changing a byte. A body itself is never copied, but for gRPC's
// messages and, with the strategy "chwbl", chat completions (spread.go).
//
// Scanner reads the chunks and returns Facts: the model, whether the answer is streamed, how long
// it may be, and the prompt as a prefix.Chain. The prompt is hashed as the server puts it together:
// roles and contents of the messages in order, parts of a content joined, behind the tools and
// instructions, wherever in the body these are. Strings are hashed as they are written in JSON: one
// client writes a text in one way. An image takes no tokens; its hash is part of the chain.
//
// KindOf finds the API by the request's path. Of an API that it does not know, the model is read
// and no prompt. members.go is the table of what each member of a body is read for: a new API or
// member is a row there.
//
// Spread makes the hash by which the strategy "chwbl" spreads requests. Its reader of chat
// completions is strict about structure: the key of a broken one would be arbitrary.
//
// Scanner is no validator: of a body that is not a JSON object there are no facts, and the model
// server answers it. Package extproc feeds it.
//
// Tests: go test ./picker/request; FuzzScanner_EqualsEncodingJSON compares with encoding/json over
// every split into chunks.
package request
