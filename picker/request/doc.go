// Package request reads the bodies of requests to model servers for the picker, chunk by chunk as
// they arrive. Package extproc passes the chunks to a Scanner.
//
// Scanner returns Facts: the model, limits, and the prompt as a prefix.Chain. It hashes the prompt
// in the order in which a server reads it: tools and instructions first, wherever they are in the
// body, then the messages' roles and contents. It hashes strings as written in JSON, because a
// client always writes a text in the same way. members.go lists each API's JSON members.
//
// Scanner does not validate. A body that is not a JSON object has no facts, and the model server
// reports the error. Spread rejects a chat completion that is not JSON, because it cannot compute
// the key for the strategy "chwbl".
package request
