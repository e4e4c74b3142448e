package schedule

import "github.com/penstock-project/penstock/picker/prefix"

// Request is the input of a pick. In the zero value, nothing is known about the request.
type Request struct {
	Model  string
	Tokens int  // tokens of the prompt; 0 if unknown
	Stream bool // the response is streamed
	// Responses means OpenAI's Responses API.
	Responses bool
	Chain     prefix.Chain // the prompt, or empty; read during the call only
	Exact     prefix.Exact // the prompt, if its token IDs are known; read during the call only
	// Criticality determines whether the strategy "tree" sheds the request.
	Criticality Criticality
	// Spread is the hash for the strategy "chwbl"; 0 if the request has none.
	Spread uint64
	// MaxTokens bounds the response; 0 if unknown.
	MaxTokens int
	Objective Objective
	// External has one list for each external scorer of the profile, in order: the scores by an
	// endpoint's place in the list of endpoints. A list is nil if its scorer gave no answer.
	External [][]float64
	Session  Session
	// Items are hashes of the prompt's images, audio and video, read during the call only.
	Items []uint64
	// Header returns a request's header; nil if the profile reads none.
	Header func(name string) []byte
	// Profile is the profile of the document that the request names; "" means the default profile.
	Profile string
}
