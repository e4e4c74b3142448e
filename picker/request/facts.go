package request

import (
	"bytes"

	"github.com/penstock-project/penstock/picker/prefix"
)

// Facts are what a picker uses of a body.
type Facts struct {
	Kind Kind
	// Model is the top-level "model", unescaped. It is "" if there is none, if it is not a string,
	// or if it is longer than 6,144 bytes as written. Of several the last is used, as by the model
	// servers' JSON parsers.
	Model string
	// Target replaces the model; nil: it stays. The Chain and the prompt's hash are those of a
	// request for the target.
	Target *Target
	// Stream is the top-level "stream": true only for the literal true. Of several the last is
	// used.
	Stream bool
	// MaxTokens bounds the answer: max_tokens, max_completion_tokens or max_output_tokens, the last
	// of them; 0: no bound is known.
	MaxTokens int
	// Size of the body in bytes.
	Size int
	// Tokens of the prompt: a quarter of its bytes, as written in JSON, unless token IDs are given.
	// Images count as none. 0 if the prompt is unknown.
	Tokens int
	// Spread is the hash of the body's key; 0 if it is not computed. See Spread.
	Spread uint64
	// Previous is the response that a request of the Responses API follows; zero: none.
	Previous ResponseID
	// Unstored means that the server is asked not to keep the response: the top-level "store" is
	// false.
	Unstored bool
	// Media means that the prompt has images, audio, video or files.
	Media bool
	// Items are the hashes of the first images, audio, video and files, 32 at most, each once. They
	// are valid until the Scanner's Release.
	Items []uint64
	// Route is the member "route" of the body, and GivesRoute whether it is true or false.
	Route, GivesRoute bool
	// Chain of the prompt, valid until the Scanner's Release.
	Chain prefix.Chain
	// Exact is the prompt if it is given as token IDs, valid as long; else it has the salt alone.
	Exact prefix.Exact
	// Prompt is the hash of the whole prompt, with the model and the API.
	Prompt uint64
}

// Kind is which API a request is for.
type Kind uint8

// The kinds. Of OtherKind the prompt is unknown.
const (
	OtherKind Kind = iota
	ChatCompletions
	Completions
	Responses
	Embeddings
	Rerank
	Messages     // of Anthropic
	Generate     // of vLLM: token IDs
	GRPCGenerate // of vLLM's gRPC API, as the next one
	GRPCEmbed
	Rendered // no request, but the answer of vLLM's render endpoints: token IDs
)

// Paths that a request's path may end in. A prefix, as of several APIs behind one host, is the
// client's choice.
var paths = [...]struct {
	path string
	kind Kind
}{
	{"/v1/chat/completions", ChatCompletions},
	{"/v1/completions", Completions},
	{"/v1/responses", Responses},
	{"/v1/embeddings", Embeddings},
	{"/rerank", Rerank}, // also /v1 and /v2
	{"/v1/messages", Messages},
	{"/inference/v1/generate", Generate},
	{GRPCGeneratePath, GRPCGenerate},
	{GRPCEmbedPath, GRPCEmbed},
}

// The methods of vLLM's gRPC API that have a prompt.
const (
	GRPCGeneratePath = "/vllm.grpc.engine.VllmEngine/Generate"
	GRPCEmbedPath    = "/vllm.grpc.engine.VllmEngine/Embed"
)

// KindOf returns the kind of a request with a path, which may have a query.
func KindOf(path []byte) Kind {
	if i := bytes.IndexByte(path, '?'); i >= 0 {
		path = path[:i]
	}
	for i := range paths {
		if p := paths[i].path; len(path) >= len(p) && string(path[len(path)-len(p):]) == p {
			return paths[i].kind
		}
	}
	return OtherKind
}

// GRPC reports whether the body is a gRPC message.
func (k Kind) GRPC() bool { return k == GRPCGenerate || k == GRPCEmbed }
