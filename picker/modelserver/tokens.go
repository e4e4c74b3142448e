package modelserver

import (
	"context"
	"net/http"
)

// TokenStore returns token IDs by key.
type TokenStore interface {
	Get(ctx context.Context, key, traceParent string) ([]uint32, error)
}

const (
	// TokensKeyHeader holds the key of the prompt's token IDs in the token store.
	TokensKeyHeader = "x-req-tokens-key"
	// TokensFromHeader is a response header with the source of the token IDs: "body", "store" or
	// "prompt".
	TokensFromHeader = "x-tokens-from"
)

// prompt returns a request's token IDs. If the token store has lost them, prompt computes them from
// the prompt's words.
func (s *Server) prompt(w http.ResponseWriter, r *http.Request, f *fields, words []string) ([]uint32, error) {
	key := r.Header.Get(TokensKeyHeader)
	switch {
	case f.TokenIDs != nil:
		w.Header().Set(TokensFromHeader, "body")
		return f.TokenIDs, nil
	case key == "" || s.cfg.Tokens == nil:
		return tokenIDs(words), nil
	}
	tokens, err := s.cfg.Tokens.Get(r.Context(), key, r.Header.Get("traceparent"))
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
