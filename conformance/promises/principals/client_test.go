package principals

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// client sends requests to a pool. Its fields are the headers that the picker or the code for
// Envoy's filters names, and the body members that the picker reads. Tests find both in that code.
var client = principal{"client", func(t testing.TB) []field {
	var out []field
	add := func(path string) {
		out = append(out, field{path: path, class: cmp.Or(clientClasses[path], text)})
	}
	for _, name := range headerNames(t) {
		add("header." + name)
	}
	for _, name := range bodyMembers(t) {
		add(name)
	}
	return out
}}

// headerNames returns the headers that Penstock's code names, and some that Envoy reads itself.
func headerNames(t testing.TB) []string {
	files := sources(t, "picker", "picker/extproc", "picker/accesslog",
		"translator/envoy", "translator/model", "manifests/endpointpicker")
	names := literals(files, regexp.MustCompile(`^(x-|penstock-)[a-z0-9-]+[a-z0-9]$`))
	names = append(names, cases(sources(t, "picker/extproc/headers.go"), "nameOf")...)
	names = append(names, envoyHeaders...)
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, ":") })
	slices.Sort(names)
	return slices.Compact(names)
}

// envoyHeaders are headers that change how Envoy's router and connection manager handle a request
// or a response.
var envoyHeaders = []string{
	"host", "expect", "te", "transfer-encoding", "content-encoding", "connection", "upgrade", "via",
	"x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-envoy-original-path",
	"x-envoy-original-dst-host", "x-envoy-upstream-rq-timeout-ms", "x-envoy-retry-on",
	"x-envoy-retry-grpc-on", "x-envoy-hedge-on-per-try-timeout", "x-envoy-upstream-rq-per-try-timeout-ms",
	"x-envoy-force-trace", "x-envoy-decorator-operation", "x-envoy-expected-rq-timeout-ms",
	"x-envoy-ip-tags", "x-envoy-internal", "x-envoy-upstream-alt-stat-name",
	"x-envoy-upstream-rq-timeout-alt-response", "x-envoy-retriable-status-codes",
	"x-envoy-retriable-header-names", "x-envoy-immediate-health-check-fail", "x-envoy-overloaded",
	"x-envoy-degraded", "x-envoy-ratelimited", "x-envoy-external-address",
}

func bodyMembers(t testing.TB) (out []string) {
	members := sources(t, "picker/request/members.go", "picker/request/nvext.go")
	for _, name := range append(cases(members, "bodyUse"), cases(members, "nvextUse")...) {
		name = name[strings.LastIndexByte(name, '.')+1:]
		out = append(out, "body."+name)
	}
	for _, name := range cases(members, "nvextUse") {
		out[slices.Index(out, "body."+name)] = "body.nvext." + name
	}
	places := strings.NewReplacer("inMessage.", "body.messages[].", "inPart.", "body.messages[].content[].")
	for _, name := range cases(members, "use") {
		out = append(out, places.Replace(name))
	}
	out = append(out, "body.sampling_params.max_tokens")
	slices.Sort(out)
	return slices.Compact(out)
}

var clientClasses = map[string]class{
	"header.content-length":                         number,
	"header.x-envoy-max-retries":                    number,
	"header.x-envoy-upstream-rq-timeout-ms":         number,
	"header.x-envoy-upstream-rq-per-try-timeout-ms": number,
	"header.x-envoy-expected-rq-timeout-ms":         number,
	"header.x-llm-d-slo-ttft-ms":                    number,
	"header.x-llm-d-slo-tpot-ms":                    number,
	"header.x-slo-ttft-ms":                          number,
	"header.x-slo-tpot-ms":                          number,
	"header.host":                                   host,
	"header.x-gateway-destination-endpoint":         address,
	"header.x-gateway-destination-endpoint-subset":  address,
	"header.x-gateway-destination-endpoint-served":  address,
	"header.x-envoy-original-dst-host":              address,
	"header.x-prefiller-host-port":                  address,
	"header.x-encoder-hosts-ports":                  address,
	"header.x-data-parallel-host-port":              address,
	"header.x-kv-cache-source-host-port":            address,
	"header.x-penstock-pool":                        name,
	"header.x-penstock-pools":                       name,
	"header.x-penstock-spill":                       name,
	"header.x-penstock-subset":                      name,
	"header.x-gateway-model-name":                   name,
	"header.x-session-id":                           name,
	"header.x-session-token":                        name,
	"header.cookie":                                 name,
	"header.x-llm-d-inference-objective":            name,
	"header.x-gateway-inference-objective":          name,
	"header.x-llm-d-inference-fairness-id":          name,
	"header.x-gateway-inference-fairness-id":        name,
	"header.x-claude-code-session-id":               name,
	"header.x-session-affinity":                     name,
	"header.x-req-tokens-key":                       name,

	"body.model":                      name,
	"body.cache_salt":                 name,
	"body.previous_response_id":       name,
	"body.max_tokens":                 number,
	"body.max_completion_tokens":      number,
	"body.max_output_tokens":          number,
	"body.sampling_params.max_tokens": number,
	"body.nvext.backend_instance_id":  number,
	"body.nvext.decode_worker_id":     number,
	"body.nvext.prefill_worker_id":    number,
	"body.nvext.dp_rank":              number,
	"body.nvext.prefill_dp_rank":      number,
	"body.nvext.token_data":           list,
	"body.stream":                     boolean,
	"body.route":                      boolean,
	"body.messages":                   list,
	"body.prompt":                     list,
	"body.input":                      list,
	"body.token_ids":                  list,
	"body.documents":                  list,
	"body.tools":                      list,
	"body.functions":                  list,
	"body.nvext":                      mapping,
	"body.sampling_params":            mapping,
	"body.features":                   mapping,
	"body.chat_template_kwargs":       mapping,
}

func TestPrincipals_ClientChangesNoOtherClientsRequests(t *testing.T) {
	newClients(t).play()
}
