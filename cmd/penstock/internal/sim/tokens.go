package sim

import (
	"net/http"
)

const (
	// TokensKeyHeader has the key by which the token store has the prompt's token IDs.
	TokensKeyHeader = "x-req-tokens-key"
	// TokensFromHeader of a response has where the prompt's token IDs are from: body, store, or
	// prompt if the store did not have them.
	TokensFromHeader = "x-tokens-from"
)

// prompt returns the token IDs of a prompt: those in the body (token_ids), those that the token
// store has for the key in x-req-tokens-key, or those of its words. A list that the store does not
// have any more costs no request: the body has the prompt.
func (s *Server) prompt(w http.ResponseWriter, r *http.Request, f *fields, words []string) ([]uint32, error) {
	key := r.Header.Get(TokensKeyHeader)
	switch {
	case f.TokenIDs != nil:
		w.Header().Set(TokensFromHeader, "body")
		return f.TokenIDs, nil
	case key == "" || s.tokens == nil:
		return tokenIDs(words), nil
	}
	tokens, err := s.tokens.Get(r.Context(), key, r.Header.Get("traceparent"))
	switch {
	case r.Context().Err() != nil:
		return nil, r.Context().Err()
	case err != nil:
		s.log.Warn("token IDs were not fetched; the prompt is tokenized here", "error", err)
		w.Header().Set(TokensFromHeader, "prompt")
		return tokenIDs(words), nil
	}
	w.Header().Set(TokensFromHeader, "store")
	return tokens, nil
}
