package supervisor

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// After a crash, Envoy writes the requests in flight in such lines, which must not be logged.
func TestEnvoyLog_CrashHidesHeadersOfRequests(t *testing.T) {
	var log bytes.Buffer
	w := &logWriter{log: slog.New(slog.NewTextHandler(&log, nil))}
	const text = `a line before the log is set up
critical backtrace Caught Segmentation fault, suspect faulting address 0x0
critical backtrace #0: [0x7f2870758050]
ActiveStream 0x2b9e1d0, stream_id_: 7, has_continue_headers_: 0
  filter_manager_callbacks_.requestHeaders():
    ':authority', 'llm.example'
    'authorization', 'Bearer of-a-client'
current slice length: 60 contents: "POST / HTTP/1.1\r\nauthorization: Bearer of-a-client\r\n"
error of-a-client in a body
`
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	w.flush()
	for _, want := range []string{"before the log", "Segmentation fault", "0x7f2870758050"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q: %s", want, &log)
		}
	}
	if strings.Contains(log.String(), "of-a-client") {
		t.Errorf("the log has a client's credential, want it left out: %s", &log)
	}
}

func TestEnvoyLog_FieldsThatPenstockChoosesAreNoWarnings(t *testing.T) {
	var log bytes.Buffer
	w := &logWriter{log: slog.New(slog.NewTextHandler(&log, nil))}
	const text = "warning misc field 'envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig.matcher' is marked as " +
		"work-in-progress. API features marked as work-in-progress are not considered stable\n" +
		"warning misc message 'envoy.extensions.filters.http.ai_protocol_manager.v3.AiProtocolManager' is contained " +
		"in proto file 'envoy/extensions/filters/http/ai_protocol_manager/v3/ai_protocol_manager.proto' marked as " +
		"work-in-progress. API features marked as work-in-progress are not considered stable\n" +
		"warning misc another warning\n"
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); strings.Contains(got, "work-in-progress") || !strings.Contains(got, "another warning") {
		t.Errorf(`the log: got %s, want "another warning" without work-in-progress`, got)
	}
}
