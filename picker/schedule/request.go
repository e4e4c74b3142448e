package schedule

import "github.com/penstock-project/penstock/picker/prefix"

// Request is the input of a pick.
type Request struct {
	Model  string
	Tokens int // of the prompt; 0 if unknown
	Stream bool
	// Responses marks a request to OpenAI's Responses API.
	Responses bool
	Chain     prefix.Chain // the prompt's blocks; valid during the call
	Exact     prefix.Exact // the prompt's token IDs; valid during the call
	// Criticality decides whether a strategy may shed the request, and the steps of "tree".
	Criticality Criticality
	// Spread is the hash of the request's key for the strategy "chwbl"; 0 if it has no key.
	Spread uint64
	// MaxTokens bounds the response; 0 if unknown.
	MaxTokens int
	Objective Objective
	// External has, for each external scorer of the profile, a score for each endpoint of the list,
	// in order; nil if the scorer did not answer.
	External [][]float64
	Session  Session
	// Items are hashes of the prompt's images, audio and video, valid during the call.
	Items []uint64
	// Header returns a request's header; nil if the profile reads none.
	Header func(name string) []byte
	// Profile is the profile that the request names; "" means the default profile.
	Profile string
}
