package simulation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// failed is the lowest status of a failed response. Failed requests cost no tokens.
const failed = 400

// Replayable returns the requests of a trace that servers with this configuration can serve, or an
// error if none remains. left describes the omitted requests by reason. Arrival times are relative
// to the first remaining request.
func (w *Workload) Replayable(c ServerConfig) (usable *Workload, left []string, err error) {
	room := c.withDefaults().Blocks * BlockTokens
	part := *w
	part.Requests = slices.Clone(w.Requests)
	leave := func(why string, out func(*Request) bool, first func(*Request) string) {
		before := len(part.Requests)
		at := slices.IndexFunc(part.Requests, func(r Request) bool { return out(&r) })
		if at < 0 {
			return
		}
		r := part.Requests[at]
		part.Requests = slices.DeleteFunc(part.Requests, func(r Request) bool { return out(&r) })
		left = append(left,
			fmt.Sprintf("left out %d of %d requests: %s; the first is %s:%d, with %s", before-len(part.Requests),
				len(w.Requests), why, w.Name, r.line, first(&r)))
	}
	leave("they failed", func(r *Request) bool { return r.status >= failed },
		func(r *Request) string { return fmt.Sprintf("status %d", r.status) })
	leave(fmt.Sprintf("the KV cache of a server has %d tokens, set --kv-blocks", room),
		func(r *Request) bool { return r.Input+r.Output > room },
		func(r *Request) string { return fmt.Sprintf("%d tokens", r.Input+r.Output) })
	if len(part.Requests) == 0 {
		return nil, nil, errors.New("no request can be replayed: " + strings.Join(left, "; "))
	}
	for i := len(part.Requests) - 1; i >= 0; i-- {
		part.Requests[i].At -= part.Requests[0].At
	}
	return &part, left, nil
}
