// Package request reads OpenAI-style request bodies for the picker: once, in the chunks in which they arrive, without a copy
// and without changing a byte.
//
// Scanner reads the chunks and returns Facts. It is no validator: a body that is not a JSON object has no facts, and is left
// to the model server. Package extproc feeds it; it imports no other package of this module.
//
// Further facts (the prompt's text, token limits) are further fields that Scanner recognises at the top level. Rewriting
// splices at the offsets that it saw, so it needs no second parser.
//
// Tests: go test ./picker/request; FuzzScanner_EqualsEncodingJSON compares with encoding/json over every split into chunks.
package request
