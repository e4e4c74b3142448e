// Package onetoken requests one token from a model server, to test its engine: an API server in
// front of a hanging engine stays healthy, and its metrics page fresh.
//
// The request is a completion of one character with max_tokens 1, or a chat completion if the
// server lacks completions. It costs some 10 prompt tokens and one output token. Time, redirects
// and the size of the answer are bounded. The package keeps nothing, and uses no part of a user's
// request except its model's name.
//
// Only package picker calls it. Tests: go test ./picker/onetoken.
package onetoken
