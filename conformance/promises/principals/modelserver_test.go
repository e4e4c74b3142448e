package principals

import (
	"cmp"
	"go/ast"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/picker/kvevents"
)

// modelServerOf is a model server of a pool. It writes its metrics page, its list of models, KV
// events and loads over ZMQ, and responses. Tests find the fields in the code that reads them.
var modelServerOf = principal{"model server", func(t testing.TB) []field {
	var out []field
	add := func(path string, otherwise class) {
		c := otherwise
		for end, named := range modelServerClasses {
			if strings.HasSuffix(path, end) {
				c = named
			}
		}
		out = append(out, field{path: path, class: c})
	}
	for _, series := range metricSeries(t) {
		add("metrics."+series, number)
	}
	for _, label := range metricLabels(t) {
		add("metrics."+label, text)
	}
	for _, tag := range jsonTags(sources(t, "picker/models/list.go")) {
		add("models."+tag, name)
	}
	for _, name := range cases(sources(t, "picker/kvevents/decode.go"), "set") {
		add("events."+name, number)
	}
	add("events.type", choice)
	for _, f := range []string{"sequence", "timestamp"} {
		add("events."+f, number)
	}
	add("events.topic", name)
	for i := range reflect.TypeFor[kvevents.Load]().NumField() {
		add("load."+reflect.TypeFor[kvevents.Load]().Field(i).Name, number)
	}
	for _, name := range headerNames(t) {
		add("response."+name, cmp.Or(clientClasses["header."+name], text))
	}
	for _, name := range []string{"prompt_tokens", "completion_tokens", "total_tokens"} { // Envoy's filter reads these
		add("usage."+name, number)
	}
	return out
}}

var modelServerClasses = map[string]class{
	"events.block_hashes":      list,
	"events.token_ids":         list,
	"events.extra_keys":        list,
	"events.medium":            text,
	"events.lora_name":         name,
	"models.created":           number,
	"models.data":              list,
	"models.object":            text,
	"{block_size":              number,
	"{num_gpu_blocks":          number,
	"{page_size":               number,
	"{num_pages":               number,
	"{max_lora":                number,
	"{running_lora_adapters":   name,
	"{waiting_lora_adapters":   name,
	"response.content-length":  number,
	"response.status":          number,
	"response.x-session-token": name,
}

func metricSeries(t testing.TB) []string {
	return arguments(sources(t, "picker/endpoint/engine.go"), "parseSeries")
}

func metricLabels(t testing.TB) (out []string) {
	files := sources(t, "picker/endpoint/engine.go")
	for _, label := range keyed(files, "sizeLabel", "blocksLabel") {
		series := "vllm:cache_config_info"
		if strings.Contains(label, "page") {
			series = "sglang:cache_config_info"
		}
		out = append(out, series+"{"+label)
	}
	for _, label := range cases(sources(t, "picker/endpoint/lora.go"), "adapters") {
		out = append(out, "vllm:lora_requests_info{"+label)
	}
	return out
}

func keyed(files []*ast.File, names ...string) (out []string) {
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if kv, ok := n.(*ast.KeyValueExpr); ok {
				if id, ok := kv.Key.(*ast.Ident); ok && slices.Contains(names, id.Name) {
					if s, ok := literalText(kv.Value); ok {
						out = append(out, s)
					}
				}
			}
			return true
		})
	}
	return out
}

func jsonTags(files []*ast.File) (out []string) {
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok && f.Tag != nil {
				key, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
				out = append(out, key)
			}
			return true
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestPrincipals_ModelServerChangesNoOtherPoolsRequests(t *testing.T) {
	newServers(t).play()
}
