package endpoint

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestScrape_ConnectionServesUntilItIsBroken(t *testing.T) {
	var conns atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/closes":
			w.Header().Set("Connection", "close")
		case "/chunks":
			w.(http.Flusher).Flush()
		case "/header":
			w.Header().Set("X-Large", strings.Repeat("x", maxHeader))
		case "/hangs":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
		fmt.Fprint(w, r.Host, " ", r.RequestURI)
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	host := strings.TrimPrefix(server.URL, "http://")
	all := newPageConn(server.URL + "/")
	for _, step := range []struct {
		path   string
		before func()
		fails  bool
		conns  int64 // expected connections so far
	}{
		{"/", func() {}, false, 1},
		{"/chunks?a=b%20c", func() {}, false, 1},
		{"/", server.CloseClientConnections, false, 2}, // the server closes the idle connection
		{"/closes", func() {}, false, 2},
		{"/", func() {}, false, 3},
		{"/header", func() {}, true, 4}, // a failure on a reused connection is retried on a new one
		{"/", func() {}, false, 5},
		{"/hangs", func() {}, true, 5},
		{"/", func() {}, false, 6},
		{"/", cancel, true, 6},
	} {
		step.before()
		all.request = newPageConn(server.URL + step.path).request
		var text []byte
		err := all.read(ctx, time.Now().Add(300*time.Millisecond), func(r *http.Response) (err error) {
			text, err = io.ReadAll(r.Body)
			return err
		})
		if (err != nil) != step.fails || !step.fails && string(text) != host+" "+step.path {
			t.Errorf("%s: got %q, %v; want an error: %t, or the host and path", step.path, text, err, step.fails)
		}
		if conns := conns.Load(); conns != step.conns {
			t.Errorf("%s: %d connections, want %d", step.path, conns, step.conns)
		}
		if step.fails && all.conn != nil {
			t.Errorf("%s: the connection of a failed read is kept", step.path)
		}
	}
	if err := newPageConn("http://10.0.0.1:80/a\r\nb: c").read(t.Context(), time.Now(), nil); err == nil {
		t.Error("a path with a header is no error")
	}
}
