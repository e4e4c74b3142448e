// Package onetoken requests one token from a model server to test its engine: an API server in
// front of a hanging engine stays healthy, and its metrics page stays fresh.
//
// The request is a completion of one character, or a chat completion if the server has no
// completions. It costs about 10 prompt tokens and one output token. Of a user's request it uses
// only the model's name. Only package picker calls it.
package onetoken
