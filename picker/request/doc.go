// Package request reads OpenAI-style request bodies for the picker: once, in the chunks in which they arrive, without a copy
// and without changing a byte.
//
// Scanner takes the chunks and gives Facts. It is no validator: of a body that is not a JSON object it reports nothing,
// and whatever the server behind makes of such a body is the server's business. Package extproc feeds it; it imports
// nothing of ours.
//
// What later strategies ask of a body (the prompt's text, token limits) becomes another field that Scanner recognises at
// the top level; rewriting splices at the offsets that it saw, so it needs no second parser.
//
// Tests: go test ./picker/request; FuzzScanner compares with encoding/json over every split into chunks.
package request
