// Package onetoken requests one token from a model server to test its engine. If only the engine
// hangs, the API server in front of it stays healthy, and its metrics page stays up to date.
//
// The request is a completion of one character, or a chat completion if the server has no
// completions API. It costs about 10 prompt tokens and one output token. Of a user's request, it
// contains only the model's name. Only package picker calls this package.
package onetoken
