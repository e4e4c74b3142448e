package envoy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
)

func edgeRig(t *testing.T, e model.Edge, p *pod) *rig {
	t.Helper()
	r := newRig(t, closedPort(t))
	r.edge = e
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1}, endpoints(p.address)...)
	r.forward("a.example", backends(model.WeightedBackend{Cluster: named("a"), Weight: 1}))
	return r
}

// raw sends text on a new connection and returns the first line of the answer.
func (r *rig) raw(t *testing.T, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", r.address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

func get(path string, headers ...string) string {
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n%s\r\n", path,
		strings.Join(append(headers, ""), "\r\n"))
}

// The request timeout must end slow uploads, but neither slow models nor long responses. Without a
// body, it also limits the wait for a pick (504). With a body, message_timeout limits that wait.
func TestRequestTimeout_EndsSlowUploadsAndNoResponses(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	begun := make(chan string, 2)
	slow := (&pod{}).serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		if req.URL.Path == "/streams" {
			_, _ = io.WriteString(w, "first ")
			_ = http.NewResponseController(w).Flush()
		}
		begun <- req.URL.Path
		<-release
		_, _ = io.WriteString(w, "last")
	}))
	picker := startPicker(t, map[string]script{"queue": {silent: true}})
	r := newRig(t, picker.address)
	r.edge = model.Edge{RequestTimeout: time.Second}
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1}, endpoints(slow.address)...)
	r.cluster(model.Cluster{Name: named("b"), Protocol: model.HTTP1, Fallback: model.FallbackNone},
		endpoints(slow.address)...)
	r.forward("queue", backends(pool("b", "queue", model.BodyBuffered)))
	r.forward("a.example", backends(model.WeightedBackend{Cluster: named("a"), Weight: 1}))
	r.start()
	type ended struct {
		answer
		err error
	}
	ends := make(chan ended, 2)
	for _, path := range []string{"/streams", "/thinks"} {
		go func() {
			a, err := r.do(r.request("POST", "a.example", path, []byte("{}")))
			ends <- ended{a, err}
		}()
		select {
		case <-begun:
		case e := <-ends:
			t.Fatalf("%s: got %s %v, want it to begin first", path, e.answer, e.err)
		}
	}
	// These requests begin, and time out, later than the two requests above.
	if got := r.raw(t, "POST /upload HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100\r\n\r\nbegin"); got !=
		"HTTP/1.1 408 Request Timeout" {
		t.Errorf(`an upload that stalls: %q, want "HTTP/1.1 408 Request Timeout"`, got)
	}
	if got, err := r.do(r.request("GET", "queue", "/", nil)); err != nil || got.status != http.StatusGatewayTimeout {
		t.Errorf("a request without a body that waits for its pick: got %s %v, want 504", got, err)
	}
	if got, err := r.do(r.request("POST", "queue", "/", []byte("{}"))); err != nil ||
		got.status != http.StatusServiceUnavailable {
		t.Errorf("a request with a body that waits for its pick: got %s %v, want 503", got, err)
	}
	close(release)
	for range 2 {
		if e := <-ends; e.err != nil || e.status != 200 || !strings.HasSuffix(e.body, "last") {
			t.Errorf("a response is cut: got %s %v, want 200 up to its last word", e.answer, e.err)
		}
	}
}

func TestEscapedSlashes_DoNotReachOtherPaths(t *testing.T) {
	t.Parallel()
	for action, want := range map[v1alpha1.EscapedSlashes]string{
		"": "307 ", v1alpha1.UnescapeAndRedirect: "307 ", v1alpha1.RejectEscapes: "400 ",
		v1alpha1.UnescapeAndForward: "200 /admin", v1alpha1.KeepEscapes: "200 /v1/..%2Fadmin",
	} {
		r := edgeRig(t, model.Edge{EscapedSlashes: action}, startPod(t, "a", 200))
		r.start()
		got, err := r.do(r.request("GET", "a.example", "/v1/..%2Fadmin", nil))
		if err != nil || fmt.Sprint(got.status, " ", got.header.Get("Echo-Path")) != want {
			t.Errorf("%q: want %q, got %d %q %v", action, want, got.status, got.header.Get("Echo-Path"), err)
		}
	}
}

func TestUnderscores_InHeaderNamesAreNotTakenForHyphens(t *testing.T) {
	t.Parallel()
	for action, want := range map[v1alpha1.HeadersWithUnderscores]string{
		"": "400 Bad Request", v1alpha1.RejectUnderscores: "400 Bad Request", v1alpha1.DropUnderscores: "200 OK",
		v1alpha1.AllowUnderscores: "200 OK",
	} {
		p := startPod(t, "a", 200)
		r := edgeRig(t, model.Edge{Underscores: action}, p)
		r.start()
		if got := r.raw(t, get("/", "X_Penstock_Pool: other")); got != "HTTP/1.1 "+want {
			t.Errorf("%q: want %s, got %s", action, want, got)
		}
		if action == v1alpha1.DropUnderscores || action == v1alpha1.AllowUnderscores {
			there := p.last.Load().Header.Get("X_penstock_pool") != ""
			if there != (action == v1alpha1.AllowUnderscores) {
				t.Errorf("%q: the pod got %v, want X_penstock_pool: %t",
					action, p.last.Load().Header, action == v1alpha1.AllowUnderscores)
			}
		}
	}
}

func TestTrustedHops_DecideTheClientsAddress(t *testing.T) {
	t.Parallel()
	for hops, want := range map[uint32]string{0: "127.0.0.1", 1: "192.0.2.2", 2: "192.0.2.1"} {
		p := startPod(t, "a", 200)
		r := edgeRig(t, model.Edge{TrustedHops: hops}, p)
		r.start()
		req := r.request("GET", "a.example", "/", nil)
		req.Header.Set("X-Forwarded-For", "192.0.2.1, 192.0.2.2")
		if _, err := r.do(req); err != nil {
			t.Fatal(err)
		}
		if got := p.last.Load().Header.Get("X-Envoy-External-Address"); got != want {
			t.Errorf("%d hops: the client is %s, want %s (%v)", hops, got, want, p.last.Load().Header)
		}
	}
}

// With KeepRequestIDs, a client's UUID must stay unchanged, even if Envoy traces the request.
func TestRequestIDs_AClientsStandsWhereItIsKept(t *testing.T) {
	t.Parallel()
	for action, kept := range map[v1alpha1.RequestIDs]bool{
		"": false, v1alpha1.ReplaceRequestIDs: false, v1alpha1.KeepRequestIDs: true,
	} {
		p := startPod(t, "a", 200)
		r := edgeRig(t, model.Edge{RequestIDs: action}, p)
		r.cfg.Tracing = &Tracing{SamplingPercent: 100}
		r.start()
		for _, id := range []string{"5c0f4b2e-7d53-4a1c-9a52-1b1f3f6f0a11", "order 66", ""} {
			req := r.request("GET", "a.example", "/", nil)
			if id != "" {
				req.Header.Set("X-Request-Id", id)
			}
			got, err := r.do(req)
			if err != nil {
				t.Fatal(err)
			}
			at, back := p.last.Load().Header.Get("X-Request-Id"), got.header.Get("X-Request-Id")
			if at == "" || at != back || (at == id) != (kept && id != "") {
				t.Errorf("%q: of %q the pod gets %q, and the client %q; want the same, the client's own: %t",
					action, id, at, back, kept && id != "")
			}
		}
	}
}

func TestProxyProtocol_NamesTheClientOnlyWhereItIsAllowed(t *testing.T) {
	t.Parallel()
	const header = "PROXY TCP4 192.0.2.7 192.0.2.8 1234 80\r\n"
	// The values are the status lines with and without the PROXY protocol header.
	for action, want := range map[v1alpha1.ProxyProtocol][2]string{
		"":                             {"HTTP/1.1 400 Bad Request", "HTTP/1.1 200 OK"},
		v1alpha1.ProxyProtocolDisabled: {"HTTP/1.1 400 Bad Request", "HTTP/1.1 200 OK"},
		v1alpha1.ProxyProtocolRequired: {"HTTP/1.1 200 OK", "EOF"},
		v1alpha1.ProxyProtocolOptional: {"HTTP/1.1 200 OK", "HTTP/1.1 200 OK"},
	} {
		p := startPod(t, "a", 200)
		r := edgeRig(t, model.Edge{ProxyProtocol: action}, p)
		r.preface = ""
		if action == v1alpha1.ProxyProtocolRequired {
			r.preface = header
		}
		r.start()
		if got := r.raw(t, header+get("/")); got != want[0] {
			t.Errorf("%q, with the header: want %s, got %s", action, want[0], got)
		} else if strings.HasSuffix(got, "OK") && p.last.Load().Header.Get("X-Envoy-External-Address") != "192.0.2.7" {
			t.Errorf("%q: the client is %v, want 192.0.2.7", action, p.last.Load().Header)
		}
		if got := r.raw(t, get("/")); got != want[1] && !(want[1] == "EOF" && strings.Contains(got, "reset")) {
			t.Errorf("%q, without the header: want %s, got %s", action, want[1], got)
		}
	}
}

func TestHTTP2Streams_BoundWhatOneConnectionMayHold(t *testing.T) {
	t.Parallel()
	for set, want := range map[uint32]uint32{0: 1000, 7: 7} {
		r := edgeRig(t, model.Edge{Streams: set}, startPod(t, "a", 200))
		r.start()
		conn, err := net.Dial("tcp", r.address())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		framer := http2.NewFramer(conn, conn)
		if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
			t.Fatal(err)
		}
		if err := framer.WriteSettings(); err != nil {
			t.Fatal(err)
		}
		f, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		settings, ok := f.(*http2.SettingsFrame)
		if !ok {
			t.Fatalf("want settings first, got %v", f)
		}
		if got, _ := settings.Value(http2.SettingMaxConcurrentStreams); got != want {
			t.Errorf("%d streams: a client may have %d, want %d", set, got, want)
		}
	}
}
