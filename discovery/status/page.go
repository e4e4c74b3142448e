package status

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// Written returns an object's status in Kubernetes, as a value with the JSON fields of Status; nil:
// none.
type Written func(report.Ref) any

// Page serves the status of all objects as JSON. With ?watch it serves one line of JSON once the
// board has settled, and another after each change, until the client disconnects.
//
// On Kubernetes, Page serves the status that Penstock's leader wrote to an object, if the object
// has one, because only the leader counts the proxies of all processes. Without Kubernetes, written
// is nil.
func Page(b *Board, controller string, written Written) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines := json.NewEncoder(w)
		if !r.URL.Query().Has("watch") {
			w.Header().Set("content-type", "application/json")
			lines.SetIndent("", "  ")
			// fails only when the client disconnects
			doc := NewDocument(b.List(nil), controller, nil, time.Now())
			doc.replace(written, controller)
			_ = lines.Encode(doc)
			return
		}
		w.Header().Set("content-type", "application/jsonl")
		flush := http.NewResponseController(w)
		_ = b.Stream(r.Context(), controller, written, func(doc *Document) error {
			return errors.Join(lines.Encode(doc), flush.Flush())
		})
	})
}

func (d *Document) replace(written Written, controller string) {
	if written == nil {
		return
	}
	for i := range d.Objects {
		raw, err := json.Marshal(written(d.Objects[i].Ref))
		var own Status
		if err != nil || json.Unmarshal(raw, &own) != nil {
			continue
		}
		own.Parents = slices.DeleteFunc(own.Parents, func(p Parent) bool { return p.ControllerName != controller })
		own.Ancestors = slices.DeleteFunc(own.Ancestors,
			func(a Ancestor) bool { return a.ControllerName != controller })
		if len(own.Conditions)+len(own.allParents()) > 0 {
			d.Objects[i].Status = own
		}
	}
}
