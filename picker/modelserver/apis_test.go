package modelserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func decodeJSON[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: want JSON, got %s", err, text)
	}
	return v
}

// namedEvents reads a stream of named events. It returns the names, without immediate repetitions,
// and each event's data.
func namedEvents(t *testing.T, body string) (names, data []string) {
	t.Helper()
	for block := range strings.SplitSeq(strings.TrimSpace(body), "\n\n") {
		name, rest, _ := strings.Cut(block, "\n")
		if block == "data: [DONE]" {
			names = append(names, "[DONE]")
			continue
		}
		name, isName := strings.CutPrefix(name, "event: ")
		rest, isData := strings.CutPrefix(rest, "data: ")
		if !isName || !isData || !strings.Contains(rest, `"type":"`+name+`"`) {
			t.Fatalf("not an event with a name, and data of that type: %q", block)
		}
		names, data = append(names, name), append(data, rest)
	}
	return slices.Compact(names), data
}

type response struct {
	Object, Status string
	Incomplete     *struct{ Reason string } `json:"incomplete_details"`
	Output         []struct{ Content []struct{ Text string } }
	Usage          *struct {
		InputTokens  int           `json:"input_tokens"`
		InputDetails promptDetails `json:"input_tokens_details"`
		OutputTokens int           `json:"output_tokens"`
		TotalTokens  int           `json:"total_tokens"`
	}
}

type responseEvent struct {
	Sequence int `json:"sequence_number"`
	Response *response
	Delta    *string
}

type anthropicMessage struct {
	Type, Role string
	Content    []struct{ Text string }
	StopReason *string `json:"stop_reason"`
	Usage      anthropicUsage
}

type anthropicUsage struct {
	InputTokens         int `json:"input_tokens"`
	CacheCreationTokens int `json:"cache_creation_input_tokens"`
	CacheReadTokens     int `json:"cache_read_input_tokens"`
	OutputTokens        int `json:"output_tokens"`
}

type anthropicEvent struct {
	Message *anthropicMessage
	Usage   *anthropicUsage
}

func TestResponses_AnswerNamesServerAndRepeatsInput(t *testing.T) {
	_, url := serve(t, Config{Name: "pod-7", PrefixCaching: true})
	long := words(32, "w")
	for _, c := range []struct {
		body, text, status string
		in, cached, out    int
	}{
		{`{"input":"one two"}`, "pod-7 answers: one two", "completed", 2, 0, 4},
		{`{"instructions":"be kind","input":[{"role":"user","content":"a b"},{"type":"message","role":"user","content":[{"type":"input_text","text":"c d"}]}]}`,
			"pod-7 answers: c d", "completed", 6, 0, 4},
		{`{"input":[{"type":"function_call_output","output":"42"}],"max_output_tokens":2}`, "pod-7 answers:",
			"incomplete", 1, 0, 2},
		{`{"instructions":"` + long + `","input":"first","max_output_tokens":1}`, "pod-7", "incomplete", 33, 0, 1},
		{`{"instructions":"` + long + `","input":"second","max_output_tokens":1}`, "pod-7", "incomplete", 33, 32, 1},
	} {
		status, _, got := ask(t, url+"/v1/responses", c.body)
		a := decodeJSON[response](t, got)
		if status != 200 || a.Object != "response" || a.Status != c.status || a.Output[0].Content[0].Text != c.text ||
			(a.Incomplete != nil) != (c.status == "incomplete") {
			t.Errorf("%s: got %d %s, want 200, status %s and text %q", c.body, status, got, c.status, c.text)
		}
		if u := a.Usage; u.InputTokens != c.in || u.InputDetails.CachedTokens != c.cached || u.OutputTokens != c.out ||
			u.TotalTokens != c.in+c.out {
			t.Errorf("%s: got usage %+v, want %d in, %d cached, %d out", c.body, *u, c.in, c.cached, c.out)
		}
	}
}

func TestResponses_EventsAddUpToTheAnswer(t *testing.T) {
	_, url := serve(t, Config{Name: "pod-7", InterTokenLatency: time.Microsecond})
	_, headers, got := ask(t, url+"/v1/responses", `{"input":"one two","stream":true}`)
	if !strings.HasPrefix(headers.Get("content-type"), "text/event-stream") {
		t.Errorf(`content type %s, want the beginning "text/event-stream"`, headers.Get("content-type"))
	}
	names, data := namedEvents(t, got)
	if diff := cmp.Diff([]string{
		"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
		"response.output_text.delta",
		"response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed",
	}, names); diff != "" {
		t.Error(diff)
	}
	text := ""
	for i, d := range data {
		e := decodeJSON[responseEvent](t, d)
		if e.Sequence != i {
			t.Errorf("event %d has the number %d, want its place", i, e.Sequence)
		}
		if e.Delta != nil {
			text += *e.Delta
		}
	}
	last := decodeJSON[responseEvent](t, data[len(data)-1])
	if text != "pod-7 answers: one two" || last.Response.Output[0].Content[0].Text != text ||
		last.Response.Usage.TotalTokens != 6 {
		t.Errorf(`the events have %q, and the last one is %s; want "pod-7 answers: one two" in both, and 6 tokens`,
			text, data[len(data)-1])
	}
}

func TestMessages_AnswerNamesServerAndRepeatsMessage(t *testing.T) {
	_, url := serve(t, Config{Name: "pod-7", PrefixCaching: true})
	long := words(32, "w")
	for _, c := range []struct {
		body, text, reason string
		usage              anthropicUsage
	}{
		{`{"max_tokens":9,"messages":[{"role":"user","content":"one two"}]}`, "pod-7 answers: one two", "end_turn",
			anthropicUsage{2, 0, 0, 4}},
		{`{"max_tokens":1,"system":"` + long + `","messages":[{"role":"user","content":"a"}]}`, "pod-7", "max_tokens",
			anthropicUsage{33, 0, 0, 1}},
		{`{"max_tokens":3,"system":[{"type":"text","text":"` + long +
			`"}],"messages":[{"role":"user","content":[{"type":"text","text":"b"}]}]}`,
			"pod-7 answers: b", "end_turn", anthropicUsage{1, 0, 32, 3}},
	} {
		status, _, got := ask(t, url+"/v1/messages", c.body)
		a := decodeJSON[anthropicMessage](t, got)
		if status != 200 || a.Type != "message" || a.Role != "assistant" || a.Content[0].Text != c.text ||
			*a.StopReason != c.reason || a.Usage != c.usage {
			t.Errorf("%s: got %d %s, want 200, text %q, reason %s and usage %+v",
				c.body, status, got, c.text, c.reason, c.usage)
		}
	}
}

func TestMessages_EventsAddUpToTheAnswer(t *testing.T) {
	_, url := serve(t, Config{Name: "pod-7", InterTokenLatency: time.Microsecond})
	_, _, got := ask(t, url+"/v1/messages",
		`{"max_tokens":9,"stream":true,"messages":[{"role":"user","content":"one two"}]}`)
	names, data := namedEvents(t, got)
	if diff := cmp.Diff([]string{"message_start", "content_block_start", "content_block_delta", "content_block_stop",
		"message_delta", "message_stop", "[DONE]"}, names); diff != "" {
		t.Error(diff)
	}
	text := ""
	for _, d := range data {
		text += decodeJSON[struct{ Delta struct{ Text string } }](t, d).Delta.Text
	}
	start, end := decodeJSON[anthropicEvent](t, data[0]), decodeJSON[anthropicEvent](t, data[len(data)-2])
	if text != "pod-7 answers: one two" || start.Message.Usage != (anthropicUsage{2, 0, 0, 0}) ||
		*end.Usage != (anthropicUsage{2, 0, 0, 4}) || !strings.Contains(data[len(data)-2], `"stop_reason":"end_turn"`) {
		t.Errorf("the events have %q, want %q with 2 and 4 tokens, and end_turn: %s",
			text, "pod-7 answers: one two", got)
	}
}

func TestEmbeddings_TextsWithCommonWordsAreNear(t *testing.T) {
	_, url := serve(t, Config{PrefixCaching: true})
	type list struct {
		Data  []struct{ Embedding []float64 }
		Usage usage
	}
	_, _, got := ask(t, url+"/v1/embeddings",
		`{"input":["the red house","the red car","an other text"],"dimensions":64}`)
	a := decodeJSON[list](t, got)
	dot := func(i, j int) (sum float64) {
		for k, v := range a.Data[i].Embedding {
			sum += v * a.Data[j].Embedding[k]
		}
		return sum
	}
	if len(a.Data) != 3 || len(a.Data[0].Embedding) != 64 || dot(0, 1) < 0.5 || dot(0, 2) > 0.5 || dot(0, 0) < 0.999 ||
		dot(0, 0) > 1.001 {
		t.Errorf("got %s, want 3 unit vectors of 64 numbers, the second close to the first and the third not", got)
	}
	if a.Usage.PromptTokens != 9 || a.Usage.TotalTokens != 9 {
		t.Errorf("usage %+v, want PromptTokens 9 and TotalTokens 9", a.Usage)
	}
	for _, c := range []struct {
		input         string
		inputs, words int
	}{{`"a b"`, 1, 2}, {`[1,2,3]`, 1, 3}, {`[[1,2],[3]]`, 2, 3},
		{`["` + words(32, "w") + ` x","` + words(32, "v") + `"]`, 2, 65}} {
		_, _, got := ask(t, url+"/v1/embeddings", `{"input":`+c.input+`}`)
		if a := decodeJSON[list](t, got); len(a.Data) != c.inputs || len(a.Data[0].Embedding) != defaultDimension ||
			a.Usage.PromptTokens != c.words {
			t.Errorf("%s: got %s, want %d embeddings of %d words", c.input, got, c.inputs, c.words)
		}
	}
	_, _, got = ask(t, url+"/v1/embeddings", `{"encoding_format":"base64","input":"`+words(32, "w")+` y"}`)
	b := decodeJSON[struct {
		Data  []struct{ Embedding string }
		Usage usage
	}](t, got)
	if raw, err := base64.StdEncoding.DecodeString(b.Data[0].Embedding); err != nil || len(raw) != 4*defaultDimension ||
		b.Usage.cached() != 32 {
		t.Errorf("got %v: %s, want %d floats in base64, and 32 cached tokens", err, got, defaultDimension)
	}
}

func TestRerank_DocumentsAreOrderedByCommonWords(t *testing.T) {
	_, url := serve(t, Config{PrefixCaching: true})
	for i, path := range []string{"/rerank", "/v1/rerank", "/v2/rerank"} {
		_, _, got := ask(t, url+path, `{"query":"`+words(31, "q")+
			` blue","documents":["red",{"text":"blue sky"},"green"],"top_n":2}`)
		a := decodeJSON[struct {
			Model   string
			Results []ranked
			Usage   usage
		}](t, got)
		if a.Model != "base" || len(a.Results) != 2 || a.Results[0].Index != 1 ||
			a.Results[0].Document.Text != "blue sky" || a.Results[0].Score <= a.Results[1].Score {
			t.Errorf(`%s: got %s, want "blue sky" first of 2`, path, got)
		}
		if a.Usage.PromptTokens != 3*32+4 || i > 0 && a.Usage.cached() != 3*32 {
			t.Errorf("%s: got usage %+v, want %d tokens, of them %d cached from the second call on",
				path, a.Usage, 3*32+4, 3*32)
		}
	}
}

func TestAPIs_InvalidRequestGetsTheirError(t *testing.T) {
	_, url := serve(t, Config{KVCacheTokens: 64, FailRate: 0.99, Status: 429})
	long := strings.Repeat("w ", 80)
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"/v1/responses", `{"input":"a"`, 400},
		{"/v1/responses", `{}`, 400},
		{"/v1/responses", `{"input":[]}`, 400},
		{"/v1/responses", `{"input":[{"content":1}]}`, 400},
		{"/v1/responses", `{"input":"a","max_output_tokens":0}`, 400},
		{"/v1/responses", `{"input":"` + long + `"}`, 400},
		{"/v1/responses", `{"input":"a","previous_response_id":"resp-1"}`, 404},
		{"/v1/responses", `{"input":"a","model":"other"}`, 404},
		{"/v1/responses", `{"input":"a"}`, 429},
		{"/v1/messages", `[`, 400},
		{"/v1/messages", `{"messages":[{"role":"user","content":"a"}]}`, 400},
		{"/v1/messages", `{"max_tokens":0,"messages":[{"role":"user","content":"a"}]}`, 400},
		{"/v1/messages", `{"max_tokens":1,"messages":[]}`, 400},
		{"/v1/messages", `{"max_tokens":1,"system":1,"messages":[{"role":"user","content":"a"}]}`, 400},
		{"/v1/messages", `{"max_tokens":1,"model":"other","messages":[{"role":"user","content":"a"}]}`, 404},
		{"/v1/messages", `{"max_tokens":1,"stream":true,"messages":[{"role":"user","content":"a"}]}`, 429},
		{"/v1/embeddings", `{}`, 400},
		{"/v1/embeddings", `{"input":[]}`, 400},
		{"/v1/embeddings", `{"input":[[]]}`, 400},
		{"/v1/embeddings", `{"input":[[1],"a"],"dimensions":0}`, 400},
		{"/v1/embeddings", `{"input":"a","encoding_format":"hex"}`, 400},
		{"/v1/embeddings", `{"input":["a","` + long + `"]}`, 400},
		{"/v1/embeddings", `{"input":["a"` + strings.Repeat(`,"a"`, maxInputs) + `]}`, 400},
		{"/v1/embeddings", `{"input":"a","model":"other"}`, 404},
		{"/v1/embeddings", `{"input":"a"}`, 429},
		{"/rerank", `{"documents":["a"]}`, 400},
		{"/rerank", `{"query":"a"}`, 400},
		{"/rerank", `{"query":"a","documents":[1]}`, 400},
		{"/rerank", `{"query":"a","documents":["a"],"model":"other"}`, 404},
		{"/rerank", `{"query":"a","documents":["a"]}`, 429},
	} {
		status, _, got := ask(t, url+c.path, c.body)
		e := decodeJSON[struct {
			Type  string
			Error struct {
				Type, Message string
				Code          int
			}
		}](t, got)
		wantType, wantCode := "", c.status
		if c.path == "/v1/messages" {
			wantType, wantCode = "error", 0
		}
		if status != c.status || e.Type != wantType || e.Error.Code != wantCode || e.Error.Type == "" ||
			e.Error.Message == "" {
			t.Errorf("%s %s: got %d %s, want %d", c.path, c.body, status, got, c.status)
		}
	}
}

func TestAPIs_EachIsCountedInTheEngine(t *testing.T) {
	_, url := serve(t, Config{MaxNumSeqs: 2, TimeToFirstToken: time.Millisecond})
	for _, c := range []struct{ path, body string }{
		{"/v1/responses", `{"input":"a b"}`},
		{"/v1/messages", `{"max_tokens":4,"messages":[{"role":"user","content":"a b"}]}`},
		{"/v1/embeddings", `{"input":["a","b","c"]}`},
		{"/v1/rerank", `{"query":"a","documents":["b","c"]}`},
	} {
		if status, _, got := ask(t, url+c.path, c.body); status != 200 {
			t.Errorf("%s: %d %s, want 200", c.path, status, got)
		}
	}
	// Each input of an embedding request, and each reranked document, counts as one request.
	waitForMetrics(t, url,
		map[string]float64{"vllm:request_success_total": 7, "vllm:prompt_tokens_total": 2 + 2 + 3 + 4,
			"vllm:generation_tokens_total": 8, "vllm:num_requests_running": 0})

	_, url = serve(t, Config{MaxNumSeqs: 2, TimeToFirstToken: time.Hour})
	holdRequest(t, url+"/v1/embeddings", `{"input":["a","b","c"]}`)
	waitForMetrics(t, url, map[string]float64{"vllm:num_requests_running": 2, "vllm:num_requests_waiting": 1})
	holdRequest(t, url+"/v1/responses", `{"input":"a"}`)
	waitForMetrics(t, url, map[string]float64{"vllm:num_requests_running": 2, "vllm:num_requests_waiting": 2})
	holdRequest(t, url+"/v1/messages", `{"max_tokens":1,"messages":[{"role":"user","content":"a"}]}`)()
	waitForMetrics(t, url, map[string]float64{"vllm:num_requests_running": 2, "vllm:num_requests_waiting": 2})
}

// TestAPIs_HaveTheMembersOfLLMDInferenceSim compares with llm-d-inference-sim, which has no rerank:
// our answers and events must have all members of its answers and events, in the same order of
// events.
func TestAPIs_HaveTheMembersOfLLMDInferenceSim(t *testing.T) {
	_, ours := serve(t, Config{})
	theirs := startInferenceSim(t, "--force-dummy-tokenizer")
	for _, c := range []struct{ path, body string }{
		{"/v1/embeddings", `"input":["a b","c"]`},
		{"/v1/responses", `"input":"a b"`},
		{"/v1/messages", `"max_tokens":64,"messages":[{"role":"user","content":"a b"}]`},
	} {
		_, _, want := ask(t, theirs+c.path, `{"model":"base",`+c.body+`}`)
		_, _, got := ask(t, ours+c.path, `{"model":"base",`+c.body+`}`)
		t.Run(c.path, func(t *testing.T) { contains(t, "", decodeJSON[any](t, want), decodeJSON[any](t, got)) })
		if c.path == "/v1/embeddings" {
			continue
		}
		_, _, want = ask(t, theirs+c.path, `{"model":"base","stream":true,`+c.body+`}`)
		_, _, got = ask(t, ours+c.path, `{"model":"base","stream":true,`+c.body+`}`)
		t.Run(c.path+" streamed", func(t *testing.T) {
			wantNames, wantData := namedEvents(t, want)
			names, data := namedEvents(t, got)
			// only vLLM sends [DONE]
			optional := func(name string) bool { return name == "ping" || name == "[DONE]" }
			if diff := cmp.Diff(slices.DeleteFunc(wantNames, optional),
				slices.DeleteFunc(names, optional)); diff != "" {
				t.Errorf("events differ (-theirs +ours):\n%s", diff)
			}
			byType := map[string]any{}
			for _, d := range data {
				byType[decodeJSON[struct{ Type string }](t, d).Type] = decodeJSON[any](t, d)
			}
			for _, d := range wantData {
				if name := decodeJSON[struct{ Type string }](t, d).Type; !optional(name) {
					contains(t, name, decodeJSON[any](t, d), byType[name])
				}
			}
		})
	}
}

func contains(t *testing.T, at string, want, got any) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		object, _ := got.(map[string]any)
		for name, value := range want {
			if _, ok := object[name]; !ok {
				t.Errorf("%s.%s is missing", at, name)
				continue
			}
			contains(t, at+"."+name, value, object[name])
		}
	case []any:
		if list, _ := got.([]any); len(want) > 0 && len(list) == 0 {
			t.Errorf("%s is empty, want entries", at)
		} else if len(want) > 0 {
			contains(t, at+"[]", want[0], list[0])
		}
	default:
		if a, b := fmt.Sprintf("%T", want), fmt.Sprintf("%T", got); a != b {
			t.Errorf("%s is a %s, want %s", at, b, a)
		}
	}
}
