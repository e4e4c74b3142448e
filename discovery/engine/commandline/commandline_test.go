package commandline_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/penstock-project/penstock/discovery/engine/commandline"
	"github.com/penstock-project/penstock/discovery/status/report"
)

func variables(t testing.TB, text string) map[string]apiextensionsv1.JSON {
	t.Helper()
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		t.Fatal(err)
	}
	out := map[string]apiextensionsv1.JSON{}
	for name, value := range raw {
		out[name] = apiextensionsv1.JSON{Raw: value}
	}
	return out
}

const engine = `{"type": "object", "properties": {
	"gpu-memory-utilization": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
	"max_model_len": {"type": "integer", "minimum": 1},
	"dtype": {"enum": ["auto", "float16"]},
	"seed": {"type": "integer", "default": 0},
	"chat-template": {"type": "string"},
	"enforce-eager": {"type": "boolean"},
	"token": {"type": "string", "pattern": "^hf_"},
	"hf-overrides": {"type": "object", "properties": {"rope": {"type": "string"}}, "additionalProperties": false},
	"stop": {"type": "array", "items": {"type": "string"}}}}`

func TestVariables_BecomeArguments(t *testing.T) {
	s, err := commandline.Compile([]byte(engine))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		variables string
		want      []string
	}{
		{`{}`, []string{"--seed", "0"}},
		{`{"seed": 7}`, []string{"--seed", "7"}},
		{`{"gpu_memory_utilization": 0.90}`, []string{"--gpu-memory-utilization", "0.90", "--seed", "0"}},
		{`{"max-model-len": 4096}`, []string{"--max_model_len", "4096", "--seed", "0"}},
		{`{"enforce-eager": true}`, []string{"--enforce-eager", "--seed", "0"}},
		{`{"enforce_eager": false}`, []string{"--seed", "0"}},
		{`{"hf-overrides": {"rope": "<yarn>"}, "stop": ["a", "b c"]}`,
			[]string{"--hf-overrides", `{"rope":"<yarn>"}`, "--seed", "0", "--stop", `["a","b c"]`}},
		{`{"chat-template": "a: {b}\n- c # ${port} --x"}`,
			[]string{"--chat-template", "a: {b}\n- c # ${port} --x", "--seed", "0"}},
	} {
		got, found := commandline.Arguments(variables(t, c.variables), s, []string{"host", "port"})
		if !slices.Equal(got, c.want) || len(found) > 0 {
			t.Errorf("%s: %q %v, want %q", c.variables, got, found, c.want)
		}
	}
}

func TestVariables_AMistakeHasFieldRuleAndNearestName(t *testing.T) {
	s, err := commandline.Compile([]byte(engine))
	if err != nil {
		t.Fatal(err)
	}
	closed, err := commandline.Compile([]byte(`{"properties": {"max-num-seqs": {}}, "additionalProperties": false,
		"required": ["max-num-seqs"]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		schema          *commandline.Schema
		variables       string
		severity        report.Severity
		field, problems string // expected field, and expected "problem; fix"
	}{
		{s, `{"gpu_memory_utilization": 1.5}`, report.Error, "spec.variables.gpu_memory_utilization", "maximum"},
		{s, `{"max-model-len": "x"}`, report.Error, "spec.variables.max-model-len", "want integer"},
		{s, `{"dtype": "flot16"}`, report.Error, "spec.variables.dtype", "'float16'"},
		{s, `{"gpu-memory-utilisation": 0.9}`, report.Warning, "spec.variables.gpu-memory-utilisation",
			"write gpu-memory-utilization"},
		{s, `{"whatever": 1}`, report.Warning, "spec.variables.whatever", "passed as it is"},
		{s, `{"hf-overrides": {"rop": "x"}}`, report.Error, "spec.variables.hf-overrides.rop",
			"not a declared property"},
		{s, `{"stop": ["a", 1]}`, report.Error, "spec.variables.stop[1]", "want string"},
		{s, `{"--port": 1}`, report.Error, "spec.variables.--port", "without leading dashes"},
		{s, `{"port": 1}`, report.Error, "spec.variables.port", "template sets --port"},
		{s, `{"hos": "0.0.0.0"}`, report.Error, "spec.variables.hos", "template sets --host"},
		{s, `{"max-model-len": 1, "max_model_len": 2}`, report.Error, "spec.variables.max_model_len", "same argument"},
		{s, `{"chat-template": "--host"}`, report.Error, "spec.variables.chat-template", "begins with -"},
		{s, `{"seed": null}`, report.Error, "spec.variables.seed", "null"},
		{s, `{"token": "secret-1234"}`, report.Error, "spec.variables.token", "^hf_"},
		{closed, `{"max-num-seq": 1, "max-num-seqs": 2}`, report.Error, "spec.variables.max-num-seq",
			"write max-num-seqs"},
		{closed, `{}`, report.Error, "spec.variables", "lacks max-num-seqs"},
	} {
		args, found := commandline.Arguments(variables(t, c.variables), c.schema, []string{"host", "port"})
		i := slices.IndexFunc(found, func(f report.Finding) bool {
			return f.Field == c.field && f.Severity == c.severity && strings.Contains(f.Problem+" "+f.Fix, c.problems)
		})
		if i < 0 {
			t.Errorf("%s: %v, want a finding of %s with %q", c.variables, found, c.field, c.problems)
		}
		if (args == nil) != (c.severity == report.Error) {
			t.Errorf("%s: arguments %q", c.variables, args)
		}
		if strings.Contains(fmt.Sprint(found), "secret-1234") {
			t.Errorf("%s: a finding quotes the value: %v", c.variables, found)
		}
	}
}

func TestSchema_ReadsNoFilesAndAddresses(t *testing.T) {
	for _, schema := range []string{
		`{"$ref": "file:///etc/passwd"}`, `{"$ref": "http://localhost:1/schema.json"}`, `{"$ref": "other.json"}`,
		`{"$ref": "/etc/passwd"}`, `{"$schema": "https://localhost:1/meta"}`,
		`{"properties": {"a": {"$ref": "https://example.com/a"}}}`, `{"$id": "file:///etc/", "$ref": "passwd"}`,
		`{"allOf": [{"$dynamicRef": "file:///etc/hosts"}]}`, `[]`, `true`, `{"type": "strin"}`, `{"properties": 1}`,
		`{"properties": {"-x": {}}}`, `{"properties": {"a-b": {}, "a_b": {}}}`, `{`,
	} {
		if _, err := commandline.Compile([]byte(schema)); err == nil {
			t.Errorf("%s compiles", schema)
		}
	}
	if _, err := commandline.Compile([]byte(`{"$defs": {"n": {"type": "integer"}},
		"properties": {"a": {"$ref": "#/$defs/n"}}}`)); err != nil {
		t.Error(err)
	}
}

func TestSchema_AMistakeNamesPlaceAndRule(t *testing.T) {
	for schema, want := range map[string]string{
		`{"minProperties": "x"}`:                 "at /minProperties: got string, want integer",
		`{"type": 1.5}`:                          "at /type: ",
		`{"properties": {"a": {"minimum": []}}}`: "at /properties/a/minimum: got array, want number",
	} {
		if _, err := commandline.Compile([]byte(schema)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", schema, err, want)
		}
	}
}

func TestTemplate_ReplacesListedPathsOnce(t *testing.T) {
	v := commandline.Values{Host: "127.0.0.1", Port: "8000", ModelName: "${port}", ServedName: "a b"}
	for _, c := range []struct{ text, want, err string }{
		{"${host}:${port}", "127.0.0.1:8000", ""},
		{"${model.name}", "${port}", ""},
		{"${model.source}", "${port}", ""},
		{"$${host} $ {x}", "${host} $ {x}", ""},
		{"${model.nam}", "", "write ${model.name}"},
		{"${env.HOME}", "", "is no value of a template"},
		{"${host", "", "no closing brace"},
	} {
		got, err := v.Expand(c.text)
		if (err == nil) != (c.err == "") || got != c.want || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q %v, want %q %s", c.text, got, err, c.want, c.err)
		}
	}
}

// pieces are texts with a special meaning in YAML, JSON, shells, templates or command lines.
var pieces = []string{
	"a", "B7", " ", "\n", "\t", ":", ": ", "- ", "#", " #", "{", "}", "[", "]", ",", "\"", "'", "|", ">",
	"&a", "*a", "!!binary", "---", "...", "${port}", "${", "$(id)", "`id`", ";", "&&", "\\", "%", "--host",
	"0.0.0.0", "=", "null", "~", "true", "é", "日本", "\u2028", "{{.Values}}", "<no value>", "\r\n", "/", "..",
	"@", "?",
}

func seeded(n int) (out []string) {
	random := rand.New(rand.NewPCG(45, 7))
	for range n {
		text := "v"
		for range 1 + random.IntN(8) {
			text += pieces[random.IntN(len(pieces))]
		}
		out = append(out, text)
	}
	return out
}

func TestTemplate_NoValueChangesOtherArguments(t *testing.T) {
	s, err := commandline.Compile([]byte(engine))
	if err != nil {
		t.Fatal(err)
	}
	template := []string{"serve", "${model.name}", "--host", "${host}", "x${model.servedName}y"}
	for _, text := range seeded(500) {
		v := commandline.Values{Host: "127.0.0.1", ModelName: text, ServedName: text}
		var got []string
		for _, arg := range template {
			expanded, err := v.Expand(arg)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, expanded)
		}
		raw, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		args, found := commandline.Arguments(map[string]apiextensionsv1.JSON{"chat-template": {Raw: raw}}, s, nil)
		want := []string{"serve", text, "--host", "127.0.0.1", "x" + text + "y", "--chat-template", text, "--seed", "0"}
		if got = append(got, args...); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q; %v", text, got, want, found)
		}
	}
}

func FuzzTemplate_TextsWithoutPathsStay(f *testing.F) {
	for _, text := range append(seeded(20), "${host}", "$${", "${${host}}") {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		got, err := commandline.Values{Host: value}.Expand(text)
		if err == nil && !strings.Contains(text, "$") && got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}

func FuzzSchema_NoVariableSetsAnArgumentOfTheTemplate(f *testing.F) {
	f.Add(engine, `{"seed": 1}`)
	f.Add(`{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#"}}}`, `{"a": [1]}`)
	f.Fuzz(func(t *testing.T, schema, text string) {
		s, err := commandline.Compile([]byte(schema))
		var raw map[string]json.RawMessage
		if err != nil || json.Unmarshal([]byte(text), &raw) != nil {
			return
		}
		vars := map[string]apiextensionsv1.JSON{}
		for name, value := range raw {
			vars[name] = apiextensionsv1.JSON{Raw: value}
		}
		args, found := commandline.Arguments(vars, s, []string{"host"})
		if slices.Contains(args, "--host") {
			t.Errorf("%s: %q %v", text, args, found)
		}
	})
}
