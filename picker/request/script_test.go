package request

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	lua "github.com/yuin/gopher-lua"
)

// script runs the Lua script with which Envoy finds the model. The Lua here is not Envoy's; tests
// of translator/envoy run the script in Envoy.
type script struct {
	state *lua.LState
	body  string

	strict   bool
	content  string
	model    string // header that the script sets
	status   string // of the script's own response; "" if the request continues
	rerouted bool
}

// findWithinText lets string.find begin after the end of a text, as Envoy's Lua does. The Lua here
// would panic.
const findWithinText = `do
  local find = string.find
  string.find = function(s, p, init, plain) return find(s, p, math.min(init or 1, #s + 1), plain) end
end
`

func newScript(t testing.TB) *script {
	t.Helper()
	text, err := os.ReadFile("../../translator/envoy/scan.lua")
	if err != nil {
		t.Fatal(err)
	}
	s := &script{state: lua.NewState()}
	t.Cleanup(s.state.Close)
	if err := s.state.DoString(findWithinText + string(text)); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *script) run(t *testing.T, body string) {
	t.Helper()
	s.body, s.model, s.status, s.rerouted = body, "", "", false
	if err := s.state.CallByParam(lua.P{Fn: s.state.GetGlobal("envoy_on_request"), Protect: true},
		s.handle()); err != nil {
		t.Fatalf("%q: got %v, want no error", body, err)
	}
}

func (s *script) handle() *lua.LTable {
	headers := s.object(map[string]lua.LGFunction{
		"get": func(l *lua.LState) int {
			if s.content == "" || l.CheckString(2) != "content-type" {
				l.Push(lua.LNil)
			} else {
				l.Push(lua.LString(s.content))
			}
			return 1
		},
		"replace": func(l *lua.LState) int { s.model = l.CheckString(3); return 0 },
	})
	body := s.object(map[string]lua.LGFunction{
		"length":   func(l *lua.LState) int { l.Push(lua.LNumber(len(s.body))); return 1 },
		"getBytes": func(l *lua.LState) int { l.Push(lua.LString(s.body)); return 1 },
	})
	context := s.object(map[string]lua.LGFunction{
		"get": func(l *lua.LState) int { l.Push(lua.LBool(s.strict)); return 1 },
	})
	metadata := s.object(map[string]lua.LGFunction{"set": func(*lua.LState) int { return 0 }})
	info := s.object(map[string]lua.LGFunction{"dynamicMetadata": returns(metadata)})
	return s.object(map[string]lua.LGFunction{
		"headers": returns(headers), "filterContext": returns(context),
		"body": returns(body), "streamInfo": returns(info),
		"respond": func(l *lua.LState) int {
			s.status = l.CheckTable(2).RawGetString(":status").String()
			return 0
		},
		"clearRouteCache": func(*lua.LState) int { s.rerouted = true; return 0 },
	})
}

func (s *script) object(methods map[string]lua.LGFunction) *lua.LTable {
	return s.state.SetFuncs(s.state.NewTable(), methods)
}

func returns(v lua.LValue) lua.LGFunction {
	return func(l *lua.LState) int { l.Push(v); return 1 }
}

// maxHeader is the longest model that the script puts into a header.
const maxHeader = 1024

// The script chooses the route, and Scanner the picker's model. They agree on a JSON object with
// one model. For any other body, the script sets no model that Scanner does not find.
func FuzzModel_RouteAndPickerAgree(f *testing.F) {
	for _, tt := range bodies {
		f.Add([]byte(tt.body))
	}
	for _, body := range []string{
		`{"model":"a\u0000b"}`, `{"model":"\ud83d\u0041"}`, `{"model":"\udc00"}`,
		`{"a":[[{"model":"x"}],{}],"model":"y"}`, `{"mod\u0065l":"\/\b\f"}`, "\t{\n\"model\"\r: \"a\"}",
		`{"model":"` + strings.Repeat("é", maxHeader/2) + `"}`,
		`{"model":"` + strings.Repeat(`\u006f`, maxHeader) + `"}`,
		`{"model":"` + strings.Repeat("m", maxHeader+1) + `"}`, `{"model":{"model":"x"}}`,
		`{"model":["x"],"stream":true}`,
		`{"x":"` + strings.Repeat(`\\\"`, 40) + `","model":"m"}`,
		`{"x":[` + strings.Repeat(`[],{},`, 40) + `1],"model":"m"}`,
	} {
		f.Add([]byte(body))
	}
	s := newScript(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		s.run(t, string(body))
		if strings.ContainsFunc(s.model, func(r rune) bool { return r < ' ' || r == 0x7f }) ||
			len(s.model) > maxHeader {
			t.Errorf("%q: header %q, want at most %d bytes without control characters", body, s.model, maxHeader)
		}
		if s.rerouted == (s.status != "") {
			t.Errorf("%q: status %q, route chosen again: %v; want one of the two", body, s.status, s.rerouted)
		}
		if !json.Valid(body) || !utf8.Valid(body) {
			return
		}
		want, models := scan(OtherKind, body, len(body)+1).Model, modelsIn(t, body)
		switch {
		case models > 1:
			if s.status != "400" {
				t.Errorf(`%q has %d models: status %q, header %q, want "400"`, body, models, s.status, s.model)
			}
			return
		case len(want) > maxHeader || strings.ContainsFunc(want, func(r rune) bool { return r < ' ' || r == 0x7f }):
			want = ""
		}
		if s.model != want || s.status != "" {
			t.Errorf("%q: header %q and status %q, Scanner reads %q", body, s.model, s.status, want)
		}
	})
}

// modelsIn counts the members "model" of a JSON object; 0 for other values.
func modelsIn(t *testing.T, body []byte) (n int) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(body)))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return 0
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		if key == "model" {
			n++
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// The strict scan rejects a body in which a server may read another model.
func TestModel_StrictScanDeclinesWhatServersMayReadOtherwise(t *testing.T) {
	s := newScript(t)
	for _, c := range []struct{ body, plain, strict string }{
		{`{"model":"a"}`, "", ""},
		{`{"model":"a","x":{"Model":"b"}}`, "", ""},
		{`{"model":"a","MODEL":"b"}`, "", "400"},
		{`{"\u004dodel":"b","model":"a"}`, "", "400"},
		{`{"model":"a","model":"b"}`, "400", "400"},
		{"{\"model\":\"a\"}\x00", "", "400"},
		{"{\x00\"\x00m\x00", "", "400"},
		{`{"model":"a","model\u0000":"b"}`, "", "400"},
		{"{\"model\":\"a\",\"mod\xffel\":\"b\"}", "", "400"},
		{`{"model":"a"}{"model":"b"}`, "", "400"},
		{`{"model":"a","a model":"b"}`, "", ""},
	} {
		for strict, want := range map[bool]string{false: c.plain, true: c.strict} {
			s.strict = strict
			if s.run(t, c.body); s.status != want {
				t.Errorf("%q, strict %t: status %q, want %q", c.body, strict, s.status, want)
			}
		}
	}
	s.strict = true
	for content, want := range map[string]string{"application/json": "", `application/json; charset="UTF-8"`: "",
		"application/json; charset=utf-7": "400", "application/json;CHARSET=utf-16": "400"} {
		s.content = content
		if s.run(t, `{"model":"a"}`); s.status != want {
			t.Errorf("content type %q: status %q, want %q", content, s.status, want)
		}
	}
}
