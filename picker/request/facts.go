package request

import (
	"bytes"

	"github.com/penstock-project/penstock/picker/prefix"
)

// Facts are the facts about a body that the picker uses.
type Facts struct {
	Kind Kind
	// Model is the last top-level "model", unescaped; "" if absent, not a string, or longer than
	// 6,144 bytes.
	Model string
	// Target, if not nil, replaces the model; Chain and Prompt are then for Target.
	Target *Target
	// Stream means that the last top-level "stream" is true.
	Stream bool
	// MaxTokens is the last max_tokens, max_completion_tokens or max_output_tokens; 0 if absent.
	MaxTokens int
	Size      int
	// Tokens is the estimated length of the prompt, in tokens: a quarter of its bytes in JSON, or
	// the number of its token IDs; 0 if unknown. Images do not count.
	Tokens int
	// Spread is the hash for the strategy "chwbl" (type Spread); 0 if not computed.
	Spread uint64
	// Previous is the response that a Responses API request continues; zero if none.
	Previous ResponseID
	// Unstored means that the top-level "store" is false.
	Unstored bool
	// Media means that the prompt has images, audio, video or files.
	Media bool
	// Items are the distinct hashes of the first 32 images and other media, valid until the
	// Scanner's Release.
	Items []uint64
	// Route and GivesRoute are Scanner.Route's results.
	Route, GivesRoute bool
	// Chain is the prompt's chain, valid until the Scanner's Release.
	Chain prefix.Chain
	// Exact is the prompt, if the body has it as token IDs, valid until the Scanner's Release.
	// Otherwise it has only the cache salt.
	Exact  prefix.Exact
	Prompt uint64
}

// Kind is a request's API.
type Kind uint8

// OtherKind is any other API, whose prompts Scanner does not find.
const (
	OtherKind Kind = iota
	ChatCompletions
	Completions
	Responses
	Embeddings
	Rerank
	Messages     // Anthropic's API
	Generate     // vLLM's API for token IDs
	GRPCGenerate // vLLM's gRPC API
	GRPCEmbed
	Rendered // a response of vLLM's render endpoints
)

// A request has the kind of the path that ends its own path. Any prefix may precede it, because one
// host may have several APIs.
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

const (
	GRPCGeneratePath = "/vllm.grpc.engine.VllmEngine/Generate"
	GRPCEmbedPath    = "/vllm.grpc.engine.VllmEngine/Embed"
)

// KindOf returns the kind of a request by its path.
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
