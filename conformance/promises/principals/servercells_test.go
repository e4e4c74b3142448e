package principals

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/parties"
	"github.com/penstock-project/penstock/conformance/promises/process/processtest"
)

// servers are the hostile model servers. Each cell has a server with its own pool and address.
type servers struct {
	*run
	fields map[string]field
	list   []*serverCell
	zmq    int
}

type serverCell struct {
	cell
	fields  map[string]field
	pool    string
	address string // the server's address on this machine
	port    int
	root    string
	part    string // the field's path below its root
}

func newServers(t testing.TB) *servers {
	t.Helper()
	s := &servers{fields: map[string]field{}}
	for _, f := range modelServerOf.fields(t) {
		s.fields[f.path] = f
	}
	s.zmq = processtest.Port(t)
	var text strings.Builder
	for i, c := range (&run{t: t, p: modelServerOf}).cells() {
		server := &serverCell{cell: c, fields: s.fields, pool: fmt.Sprintf("s%d", i)}
		server.address = fmt.Sprintf("127.77.%d.%d", i/250, i%250+1)
		server.root, server.part, _ = strings.Cut(c.field, ".")
		server.port = server.listen(t, 0, server.serve)
		if strings.HasPrefix(server.part, "nv_") {
			server.listen(t, 8002, server.serve) // Triton's metrics port
		}
		if server.root == "events" || server.root == "load" {
			server.listen(t, s.zmq, server.publish)
		}
		s.list = append(s.list, server)
		text.WriteString(server.objects(s.zmq))
	}
	s.run = begin(t, start(t, map[string]string{"servers.yaml": text.String()}), modelServerOf)
	return s
}

// objects returns the cell's pool, with settings for which Penstock reads the field.
func (c *serverCell) objects(zmq int) string {
	text := poolOf(c.pool, c.address, fmt.Sprint(c.port))
	engine := ""
	switch {
	case strings.HasPrefix(c.part, "sglang:"), c.root == "load":
		engine = "sglang"
	case strings.HasPrefix(c.part, "trtllm_"):
		engine = "trtllm-serve"
	case strings.HasPrefix(c.part, "nv_"):
		engine = "triton"
	}
	if engine != "" {
		text = strings.Replace(text, "labels: {app: ", "labels: {llm-d.ai/engine-type: "+engine+", app: ", 1)
	}
	picker := map[string]string{
		"events": fmt.Sprintf("kvEvents: {port: %d}", zmq),
		"load":   fmt.Sprintf("metrics: {engine: sglang, loadStatPort: %d}", zmq),
		"usage":  "tokenUsage: true",
	}[c.root]
	if picker == "" {
		return text
	}
	return text + fmt.Sprintf(`apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: %[1]s, namespace: mine}
spec: {targetRef: {name: %[1]s}, picker: {%[2]s}}
---
`, c.pool, picker)
}

func (c *serverCell) listen(t testing.TB, port int, serve func(net.Conn)) int {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", c.address, port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection
				defer func() { _ = conn.Close() }()
				serve(conn)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

const serverReply = "the cell's model server"

func (c *serverCell) serve(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second)) // closes a connection that is not used
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, req.Body)
	status, headers, body := "200", map[string]string{"connection": "close"}, serverReply
	switch {
	case strings.HasSuffix(req.URL.Path, "/metrics"):
		body = c.page()
	case strings.HasSuffix(req.URL.Path, "/v1/models"):
		body = c.models()
	case c.root == "usage":
		headers["content-type"] = "application/json"
		const form = `{"id":"x","model":"mine","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,%q:%s}}`
		body = fmt.Sprintf(form, c.part, c.number())
	case c.root == "response":
		headers[c.part] = c.text()
	}
	if _, set := headers["content-length"]; !set {
		headers["content-length"] = fmt.Sprint(len(body))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %s X\r\n", status)
	for name, value := range headers {
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	}
	_, _ = io.WriteString(conn, b.String()+"\r\n"+body)
}

var pages = []string{
	"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0\n",
	"sglang:num_running_reqs 0\nsglang:num_queue_reqs 0\nsglang:token_usage 0\n",
	"trtllm_num_requests_running 0\ntrtllm_num_requests_waiting 0\ntrtllm_kv_cache_utilization 0\n",
	"nv_trt_llm_request_metrics{request_type=\"waiting\"} 0\n" +
		"nv_trt_llm_request_metrics{request_type=\"scheduled\"} 0\n" +
		"nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\"} 0\n",
}

func (c *serverCell) page() string {
	page := strings.Join(pages, "")
	if c.root != "metrics" {
		return page
	}
	series, labels, some := strings.Cut(c.part, "{")
	switch name, value, selects := strings.Cut(strings.TrimSuffix(labels, "}"), "="); {
	case selects: // the series has a separate line with this label
		return page + fmt.Sprintf("%s{%s=%q} %s\n", series, name, value, c.number())
	case some: // a label
		text := c.text()
		if c.fields[c.field].class == number {
			text = c.number()
		}
		const others = `block_size="16",num_gpu_blocks="100",page_size="16",num_pages="100"`
		return page + fmt.Sprintf("%s{%s,%s=%q} 1\n", series, others, name, text)
	}
	return page + fmt.Sprintf("%s %s\n", series, c.number())
}

func (c *serverCell) models() string {
	model := map[string]any{"id": "mine", "object": "model", "created": 1, "owned_by": "me", "parent": "base"}
	whole := map[string]any{"object": "list", "data": []any{model}}
	if c.root == "models" {
		var v any = c.text()
		switch c.fields[c.field].class {
		case number:
			v = json.Number(c.number())
		case list:
			models := []any{}
			for i := range map[value]int{maximum: 1000, overflow: 20_000}[c.value] {
				models = append(models, map[string]any{"id": fmt.Sprint("m", i)})
			}
			v = models
		}
		if c.part == "data" {
			whole["data"] = v
		} else {
			model[c.part] = v
		}
	}
	raw, _ := json.Marshal(whole) // cannot fail: texts and numbers
	return string(raw)
}

func (c *serverCell) number() string {
	return cmp.Or(map[value]string{overflow: "1e999"}[c.value], numerals[c.value])
}

func (c *serverCell) text() string {
	if c.fields[c.field].class == number {
		return numerals[c.value]
	}
	if c.value == anothersName {
		return "victim"
	}
	return strings.Repeat("a", map[value]int{zero: 0, maximum: 4 << 10, overflow: 256 << 10}[c.value])
}

// publish acts as the server's PUB socket. It sends the cell's message, and then valid messages.
func (c *serverCell) publish(conn net.Conn) {
	p := parties.KVPublisher{Conn: conn}
	if p.Greet() != nil {
		return
	}
	if c.root == "load" {
		stat := []any{"LoadStat", 1, 1, 1, 1, 0}
		at := map[string]int{"Running": 1, "Waiting": 2, "Tokens": 3, "Fit": 4}[c.part]
		stat[at] = c.packed()
		for seq := uint64(1); p.Publish("load", seq, pack(stat)) == nil; seq++ {
			time.Sleep(50 * time.Millisecond)
		}
		return
	}
	event := map[string]any{
		"type": "BlockStored", "block_hashes": []any{1}, "token_ids": tokens(16), "block_size": 16, "medium": "GPU",
	}
	topic, seq, at := "kv-events", uint64(1), any(1)
	switch c.part {
	case "topic":
		topic = map[value]string{
			zero: "", maximum: strings.Repeat("a", 4<<10), overflow: strings.Repeat("a", 1<<20),
			anothersName: "kv@127.0.0.1:1@victim",
		}[c.value]
	case "sequence":
		seq = map[value]uint64{negative: 1<<64 - 1, zero: 0, maximum: 1<<63 - 1, overflow: 1 << 63}[c.value]
	case "timestamp":
		at = c.packed()
	default:
		event[c.part] = c.packed()
	}
	if p.Publish(topic, seq, pack([]any{at, []any{event}, 0})) != nil {
		return
	}
	for seq := uint64(2); p.Publish("kv-events", seq, pack([]any{1, []any{map[string]any{
		"type": "BlockStored", "block_hashes": []any{2}, "token_ids": tokens(16), "block_size": 16,
	}}, 0})) == nil; seq++ {
		time.Sleep(50 * time.Millisecond)
	}
}

func (c *serverCell) packed() any {
	switch c.fields[c.field].class {
	case list:
		return tokens(map[value]int{zero: 0, maximum: 1000, overflow: 100_000}[c.value])
	case number:
		return map[value]any{negative: -1, zero: 0, maximum: uint64(1<<63 - 1), overflow: uint64(1<<64 - 1)}[c.value]
	case choice:
		return map[value]string{zero: "", overflow: "Unheard"}[c.value]
	}
	return c.text()
}

func tokens(n int) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func pack(v any) []byte {
	var b bytes.Buffer
	switch v := v.(type) {
	case int:
		if v < 0 {
			b.WriteByte(byte(v)) // a small negative number is one byte
		} else {
			b.WriteByte(0xcf)
			_ = binary.Write(&b, binary.BigEndian, uint64(v))
		}
	case uint64:
		b.WriteByte(0xcf)
		_ = binary.Write(&b, binary.BigEndian, v)
	case string:
		b.WriteByte(0xdb)
		_ = binary.Write(&b, binary.BigEndian, uint32(len(v)))
		b.WriteString(v)
	case []any:
		b.WriteByte(0xdd)
		_ = binary.Write(&b, binary.BigEndian, uint32(len(v)))
		for _, e := range v {
			b.Write(pack(e))
		}
	case map[string]any:
		b.WriteByte(0xdf)
		_ = binary.Write(&b, binary.BigEndian, uint32(len(v)))
		for key, e := range v {
			b.Write(pack(key))
			b.Write(pack(e))
		}
	default:
		b.WriteByte(0xc0)
	}
	return b.Bytes()
}

func (s *servers) play() {
	s.t.Helper()
	for _, c := range s.list {
		s.rig.Eventually(c.String(), func() error {
			o, evidence, err := s.outcome(c)
			if err == nil {
				s.saw(c.cell, o, evidence)
			}
			return err
		})
	}
	s.rig.settle("none.yaml", "")
	s.rig.harmless("the model servers")
	s.end()
}

func (s *servers) outcome(c *serverCell) (o outcome, evidence string, err error) {
	got := s.rig.send(c.pool+".test", nil, body)
	if got.err == nil && strings.Contains(got.body, victimReply) {
		return harmful, "the victim's server has answered", nil
	}
	if c.root == "response" {
		return s.response(c, got)
	}
	if got.status != http.StatusOK {
		return "", "", fmt.Errorf("got %d %.100s %v, want 200", got.status, got.body, got.err)
	}
	switch c.root {
	case "models":
		return s.models(c)
	case "usage":
		return bounded, "the request is served", nil
	}
	var page struct {
		Verdicts []struct {
			Prefixes, Problem string
			State             struct{ Fresh bool }
		}
	}
	s.rig.get(local(s.rig.http), "/debug/pool?pool=mine/"+c.pool, &page)
	if len(page.Verdicts) != 1 {
		return "", "", fmt.Errorf("%d endpoints, want 1", len(page.Verdicts))
	}
	v := page.Verdicts[0]
	prefixes, _, _ := strings.Cut(v.Prefixes, " (") // the text in parentheses states why prefixes are missing
	switch {
	case c.root == "events" && strings.HasSuffix(prefixes, "reported"):
		return bounded, "the events are read", nil
	case c.root == "events":
		const failures = `penstock_picker_kv_event_failures_total{endpoint="%s:%d",pool="mine/%s"}`
		series := fmt.Sprintf(failures, c.address, c.port, c.pool)
		if metrics := s.rig.metrics(); strings.Contains(metrics, series) {
			return denied, series, nil
		}
		return "", "", errors.New("no event is read, and no failure is counted: " + v.Prefixes)
	case v.State.Fresh && v.Problem == "":
		return bounded, "the page is read", nil
	case v.State.Fresh:
		return finding, v.Problem, nil
	case v.Problem != "" && !strings.Contains(v.Problem, "no connection yet"):
		return denied, v.Problem, nil
	}
	return "", "", errors.New("the page is not read yet")
}

func (s *servers) response(c *serverCell, got seen) (outcome, string, error) {
	value, some := got.headers[c.part]
	switch {
	case got.err != nil || got.status != http.StatusOK:
		return denied, fmt.Sprintf("%d %.100s %v", got.status, got.body, got.err), nil
	case some && value == c.text():
		return bounded, "the client gets it", nil
	}
	return denied, "the client does not get it", nil
}

func (s *servers) models(c *serverCell) (outcome, string, error) {
	url := "http://" + local(s.rig.gateway["http"]) + "/v1/models"
	req, err := http.NewRequestWithContext(s.rig.Context(), http.MethodGet, url, nil)
	if err != nil {
		return "", "", err
	}
	req.Host = c.pool + ".test"
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	var list struct {
		Data []struct {
			ID, Object, Parent string
			Created            int64
			OwnedBy            string `json:"owned_by"`
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		return denied, fmt.Sprintf("%s %.200s %v", resp.Status, text, err), nil
	}
	if strings.HasPrefix(string(text), `{"data":`) {
		return denied, fmt.Sprintf("Penstock's list is empty, and the client gets the server's own: %.200s", text), nil
	}
	if long := c.text(); len(long) > 256 && strings.Contains(string(text), long) {
		return harmful, "the list has a long text", nil
	}
	return bounded, fmt.Sprintf("the list is %.200s", text), nil
}
