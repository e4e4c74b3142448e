// Package request reads the bodies of requests to model servers for the picker, in chunks as they
// arrive, without changing them. Package extproc passes the chunks to a Scanner.
//
// Scanner returns Facts: the model, limits, and the prompt as a prefix.Chain. The prompt is hashed
// in the server's order: tools and instructions first, wherever they are in the body, then the
// messages' roles and contents. Strings are hashed as written in JSON, because a client always
// writes a text in the same way. members.go has the table of members; a new API or member is a row
// there.
//
// Scanner does not validate: a body that is not a JSON object has no facts, and the model server
// reports the error. Spread rejects a chat completion that is not JSON, because its key for the
// strategy "chwbl" would be arbitrary.
package request
