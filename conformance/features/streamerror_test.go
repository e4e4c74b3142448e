package features

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// A server whose streams fail at once looks idle and fast. It must only get single requests, even
// without picker.tokenUsage. Errors that a client causes do not count against the server.
func TestStreamError_ServerWhoseStreamsFailAtOnceAttractsNone(t *testing.T) {
	t.Parallel()
	const event = "data: {\"error\":{\"message\":\"it died\",\"code\":%d}}\n\ndata: [DONE]\n\n"
	for name, tt := range map[string]struct {
		fail  func(http.ResponseWriter)
		fails bool
	}{
		"an event": {func(w http.ResponseWriter) { _, _ = fmt.Fprintf(w, event, 500) }, true},
		"a reset": {func(w http.ResponseWriter) {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, true},
		"a client's error of TGI, without a code": {func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `data:{"error":"Input validation error","error_type":"validation"}`+"\n\n")
		}, false},
		"a server's error without a code": {func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `data: {"error":{"message":"m","type":"api_error","code":null}}`+"\n\n")
		}, true},
		"a client's error": {func(w http.ResponseWriter) { _, _ = fmt.Fprintf(w, event, 400) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			stream := func(then func(http.ResponseWriter)) func(http.ResponseWriter) {
				return func(w http.ResponseWriter) {
					w.Header().Set("content-type", "text/event-stream")
					then(w)
				}
			}
			a, b := s.mortal("hangs"), s.mortal("works")
			a.fail(stream(tt.fail))
			b.fail(stream(func(w http.ResponseWriter) {
				_ = http.NewResponseController(w).Flush()
				time.Sleep(20 * time.Millisecond)
				_, _ = io.WriteString(w, "data: {\"choices\":[]}\n\n")
			}))
			s.up("silent.yaml")
			send := func(n int) {
				for range n {
					_, _ = s.ask("/", s.prompt(40, true))
				}
			}
			s.Eventually("the first server has had requests", func() error {
				send(10)
				return because(a.served.Load() >= 3 && b.served.Load() >= 3, "not yet")
			})
			if !tt.fails {
				s.Eventually("it gets its share", func() error {
					before := a.served.Load()
					send(20)
					return because(a.served.Load() >= before+5, a.served.Load()-before)
				})
				return
			}
			s.Eventually("it gets trials alone", func() error {
				before := a.served.Load()
				send(40)
				return because(a.served.Load() <= before+4, a.served.Load()-before)
			})
		})
	}
}
