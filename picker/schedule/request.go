package schedule

import "github.com/penstock-project/penstock/picker/prefix"

// Request is what a pick is decided by. The zero value is a request of which nothing is known.
type Request struct {
	Model  string
	Tokens int  // of the prompt; 0 if unknown
	Stream bool // the response is sent token by token
	// Responses means that the request is one of OpenAI's Responses API.
	Responses bool
	Chain     prefix.Chain // of the prompt; empty if unknown. It is read during the call only
	Exact     prefix.Exact // of the prompt, if its token IDs are known. It is read during the call only
	// Criticality decides whether the strategy "tree" sheds the request.
	Criticality Criticality
	// Spread is the hash by which the strategy "chwbl" spreads requests over endpoints; 0 if the
	// request has none.
	Spread uint64
	// MaxTokens bounds the response; 0 if unknown.
	MaxTokens int
	// Objective is what the request asks of its server.
	Objective Objective
	// External are the scores of the profile's scorers in other processes, in their order, each by
	// an endpoint's place in the list; nil for one without an answer.
	External [][]float64
	// Session decides with the strategy "session".
	Session Session
	// Items are the hashes of the prompt's images, audio and video. It is read during the call
	// only.
	Items []uint64
	// Header returns a header of the request; nil if the profile reads none.
	Header func(name string) []byte
	// Profile is the profile of the document that the request names; "" is the default.
	Profile string
}
