package envoy

import (
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
)

type responseRun struct {
	state  *lua.LState
	id     string
	failed bool
	code   int
	kind   string
	chunks int // number of chunks that the script has read
}

// run returns the response ID that the script finds in a body with chunks of `size` bytes.
func (r *responseRun) run(t *testing.T, kind, status, keeps, body string, size int) string {
	t.Helper()
	r.id, r.failed, r.code, r.kind, r.chunks = "", false, 0, "", 0
	l := r.state
	object := func(methods map[string]lua.LGFunction) *lua.LTable { return l.SetFuncs(l.NewTable(), methods) }
	returns := func(v lua.LValue) lua.LGFunction {
		return func(l *lua.LState) int { l.Push(v); return 1 }
	}
	values := map[string]string{":status": status, "content-type": kind}
	metadata := object(map[string]lua.LGFunction{
		"get": func(l *lua.LState) int {
			settings := l.NewTable()
			if keeps != "" {
				settings.RawSetString("keeps", lua.LString(keeps))
			}
			l.Push(settings)
			return 1
		},
		"set": func(l *lua.LState) int {
			switch key := l.CheckString(2) + "." + l.CheckString(3); key {
			case "penstock.response.id":
				r.id = l.CheckString(4)
			case errorNamespace + "." + errorKey:
				r.failed = l.CheckBool(4)
			case errorNamespace + "." + errorCodeKey:
				r.code = l.CheckInt(4)
			case errorNamespace + "." + errorKindKey:
				r.kind = l.CheckString(4)
			default:
				t.Errorf("%s is set, want only the known keys", key)
			}
			return 0
		},
	})
	next := func(l *lua.LState) int {
		if body == "" {
			return 0
		}
		chunk := body[:min(size, len(body))]
		body, r.chunks = body[len(chunk):], r.chunks+1
		l.Push(object(map[string]lua.LGFunction{
			"length":   returns(lua.LNumber(len(chunk))),
			"getBytes": func(l *lua.LState) int { l.Push(lua.LString(chunk[:l.CheckInt(3)])); return 1 },
		}))
		return 1
	}
	handle := object(map[string]lua.LGFunction{
		"headers": returns(object(map[string]lua.LGFunction{"get": func(l *lua.LState) int {
			if v, ok := values[l.CheckString(2)]; ok {
				l.Push(lua.LString(v))
				return 1
			}
			return 0
		}})),
		"streamInfo": returns(object(map[string]lua.LGFunction{"dynamicMetadata": returns(metadata)})),
		"bodyChunks": returns(l.NewFunction(next)),
	})
	if err := l.CallByParam(lua.P{Fn: l.GetGlobal("envoy_on_response"), Protect: true}, handle); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return r.id
}

func newResponseRun(t *testing.T) *responseRun {
	t.Helper()
	r := &responseRun{state: lua.NewState()}
	t.Cleanup(r.state.Close)
	// In gopher-lua, string.find panics if it begins after the end of the text.
	const within = "local f=string.find string.find=function(s,p,i,n) return f(s,p,math.min(i or 1,#s+1),n) end "
	if err := r.state.DoString(within + responseScript); err != nil {
		t.Fatal(err)
	}
	return r
}

// The script must report a stream as failed only if it begins with an error, in any server's
// format.
func TestStreamError_ScriptFindsItAtTheBegin(t *testing.T) {
	r := newResponseRun(t)
	const stream = "text/event-stream; charset=utf-8"
	for _, c := range []struct {
		body   string
		failed bool
		code   int
		kind   string
	}{
		{"data: {\"error\":{\"message\":\"it died\",\"code\":500}}\n\ndata: [DONE]\n\n", true, 500, ""},
		{"data: {\"error\": {\"message\": \"too long\", \"code\": 400, \"type\": \"x\"}}\n\n", true, 400, ""},
		{"data:{\"error\":\"full\",\"error_type\":\"overloaded\"}\n\n", true, 0, "overloaded"},
		{"data: {\"object\":\"error\",\"code\":\"503\",\"message\":\"\"}\r\n\r\n", true, 503, ""},
		{`event: error
data: {"type":"error","error":{"type":"overloaded_error"}}` + "\n\n", true, 0, "error overloaded_error"},
		{`data: {"type":"error","error":{"type":"invalid_request_error"}}` + "\n\n", true, 0,
			"error invalid_request_error"},
		{"event: response.failed\r\ndata: {}\r\n\r\n", true, 0, ""},
		{"error: {\"code\":501}\n\n", true, 501, ""},
		{": ping\n\ndata: {\"choices\":[]}\n\ndata: {\"error\":{\"code\":500}}\n\n", true, 500, ""},
		{"data: {\"choices\":[],\"error\":null}\n\ndata: [DONE]\n\n", false, 0, ""},
		{"data: {\"error\":null,\"choices\":[]}\n\ndata: [DONE]\n\n", false, 0, ""},
		{`data: {"choices":[{"delta":{"content":"\ndata: {\"error\":{"}}]}` + "\n\n", false, 0, ""},
		{"event: errors\ndata: {\"type\":\"errors\"}\n\n", false, 0, ""},
		{"data: [DONE]\n\n", false, 0, ""},
		{`data:{"error":"Input validation error: \"type\":\"x\"","error_type":"validation"}` + "\n\n", true, 0,
			"validation"},
		{`data: {"error":{"message":"m","type":"x","code":null,"http_status_code":422}}` + "\n\n", true, 422, ""},
		{
			`data: {"error":{"message":"m","type":"invalid_request_error","code":"context_length_exceeded"}}` + "\n\n",
			true, 0, "context_length_exceeded invalid_request_error",
		},
		{`data: {"error":{"message":"m","code":null}}` + "\n\n", true, 0, ""},
	} {
		for _, size := range []int{1 << 20, 64} {
			r.run(t, stream, "200", "", c.body, size)
			if fits := len(c.body) <= 4*size; fits && (r.failed != c.failed || r.code != c.code || r.kind != c.kind) {
				t.Errorf("chunks of %d bytes of %q: failed %t, code %d, kind %q; want %t, %d, %q",
					size, c.body, r.failed, r.code, r.kind, c.failed, c.code, c.kind)
			}
		}
		r.run(t, "application/json", "200", "", c.body, 1<<20)
		if r.failed || r.chunks > 0 {
			t.Errorf("%q is read that is no stream, want it unread", c.body)
		}
	}
	tokens := strings.Repeat("data: {\"choices\":[]}\n\n", 1000)
	if r.run(t, stream, "200", "", tokens, 24); r.chunks > 4 {
		t.Errorf("%d chunks of a long stream are read, want at most 4", r.chunks)
	}
	if id := r.run(t, stream, "200", "true", "data: {\"error\":{\"code\":400},\"response\":{\"id\":\"resp_1\"}}\n\n",
		9); !r.failed || id != "resp_1" {
		t.Errorf("failed %t, ID %q; want true, resp_1", r.failed, id)
	}
}

// For any chunk size, the script must find a response's own ID. It must ignore the IDs of items,
// metadata and other APIs: follow-up requests would go to a wrong server.
func TestResponseAffinity_ScriptReadsTheResponsesOwnID(t *testing.T) {
	r := newResponseRun(t)
	const whole, stream = "application/json", "text/event-stream; charset=utf-8"
	for _, c := range []struct{ kind, body, want string }{
		{whole, `{"id":"resp_1","output":[{"id":"msg"}]}`, "resp_1"},
		{whole, ` { "a" : [1,{"id":"x"}], "metadata":{"id":"x"}, "b":"\"id\":\"x\"}", "id" : "resp_1" }`, "resp_1"},
		{whole, `{"error":{"id":"x"}}`, ""},
		{whole, `{"id":7,"x":"resp"}`, ""},
		{whole, `{"id":"a\"b"}`, ""},
		{whole, `{"id":""}`, ""},
		{whole, `[{"id":"x"}]`, ""},
		{whole, `{"id":"` + strings.Repeat("a", 257) + `"}`, ""},
		{whole, `no JSON`, ""},
		{stream, "event: response.created\ndata: {\"response\":{\"id\":\"resp_1\",\"a\":1},\"type\":\"x\"}\n\n",
			"resp_1"},
		{stream, ": ping\r\n\r\ndata: {\"type\":\"response\",\"response\":{\"m\":{\"id\":\"x\"},\"id\":\"resp_1\"}}",
			"resp_1"},
		{stream, "data: {\"id\":\"chatcmpl\",\"choices\":[{\"response\":{\"id\":\"x\"}}]}\n\n", ""},
		{stream, "data: [DONE]\n\n", ""},
	} {
		for _, size := range []int{1 << 20, 1000, 64, 13, 7} {
			if got := r.run(t, c.kind, "200", "true", c.body, size); got != c.want && len(c.body) < 32*size {
				t.Errorf("chunks of %d bytes of %.80q: %q, want %q", size, c.body, got, c.want)
			}
		}
		for why, got := range map[string]string{
			"a failed response":       r.run(t, c.kind, "404", "true", c.body, 100),
			"the picker does not ask": r.run(t, c.kind, "200", "", c.body, 100),
		} {
			if got != "" {
				t.Errorf("%s: %q is read, want nothing", why, got)
			}
		}
	}
	late := `{"a":"` + strings.Repeat("a", 1<<20) + `","id":"resp_1"}`
	if got := r.run(t, whole, "200", "true", late, 4096); got != "" || r.chunks > 4 {
		t.Errorf("%q after %d chunks of 4 KiB: want 16 KiB at most", got, r.chunks)
	}
	if got := r.run(t, whole, "200", "true", late, 1); got != "" || r.chunks > 32 {
		t.Errorf("%q after %d chunks of a byte: want 32 at most", got, r.chunks)
	}
}
