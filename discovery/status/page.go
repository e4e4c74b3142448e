package status

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// Page serves the status of all objects as JSON. With ?watch it serves one line of JSON once the
// board has settled, and another after each change, until the client disconnects.
func Page(b *Board, controller string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines := json.NewEncoder(w)
		if !r.URL.Query().Has("watch") {
			w.Header().Set("content-type", "application/json")
			lines.SetIndent("", "  ")
			// fails only if the client has disconnected
			_ = lines.Encode(NewDocument(b.List(nil), controller, nil, time.Now()))
			return
		}
		w.Header().Set("content-type", "application/jsonl")
		flush := http.NewResponseController(w)
		_ = b.Stream(r.Context(), controller, func(doc *Document) error {
			return errors.Join(lines.Encode(doc), flush.Flush())
		})
	})
}
