// Package onetoken asks a model server for one token, to find out whether its engine works: an API
// server in front of an engine that hangs stays healthy, and its metrics page stays fresh.
//
// The question is a completion of one character with max_tokens 1, or a chat completion where the
// server lacks completions. It costs some 10 tokens of prompt and one of output. Time, redirects
// and the size of the answer are bounded. The package keeps nothing, and has no part of a user's
// request but the name of its model.
//
// Only package picker calls it. Tests: go test ./picker/onetoken.
package onetoken
