package accesslog

import (
	"testing"
	"time"

	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
)

// Only the body's first byte counts as the first token. A server that sends headers before it reads
// the prompt would otherwise look too fast.
func TestFirstToken_IsTheFirstByteOfTheBody(t *testing.T) {
	for tag, want := range map[string]time.Duration{
		"25000": 25 * time.Millisecond, "": 0, "-": 0, "-25000": 0, "1e9": 0, "99999999999999999999": 0,
	} {
		e := logged("me.1", "10.0.0.1:80", 200, datav3.AccessLogType_DownstreamPeriodic)
		if e.CommonProperties.CustomTags["first_body"] = tag; tag == "" {
			e.CommonProperties.CustomTags = nil
		}
		got, ok := entry(e)
		if !ok || got.Begun() != want || got.Headers != 30*time.Millisecond || (got.FirstByte > 0) != (want > 0) {
			t.Errorf("tag %q: begun after %s, want %s: %+v", tag, got.Begun(), want, got)
		}
	}
}

func TestFirstToken_JSONIsNoStream(t *testing.T) {
	for contentType, want := range map[string]bool{
		"application/json": true, "Application/JSON; charset=utf-8": true, "text/event-stream; charset=utf-8": false,
		"application/x-ndjson": false, "application/jsonl": false, "application/grpc": false, "": false,
	} {
		e := logged("me.1", "10.0.0.1:80", 200, datav3.AccessLogType_DownstreamEnd)
		e.Response.ResponseHeaders = map[string]string{"content-type": contentType}
		if got, _ := entry(e); got.Whole != want {
			t.Errorf("%q is a whole response: %t, want %t", contentType, got.Whole, want)
		}
	}
}
