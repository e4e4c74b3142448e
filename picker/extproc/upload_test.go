package extproc

import (
	"context"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

type room struct {
	left, limit int64
	gateway     string
	closed      chan struct{}
}

func (r *room) Upload(_ context.Context, gateway string, limit int64) Upload {
	r.gateway, r.limit = gateway, limit
	return r
}

func (r *room) Take(n int64) bool {
	if n > r.left {
		return false
	}
	r.left -= n
	return true
}

func (r *room) Close() { close(r.closed) }

func openUpload(t *testing.T, r *room, pairs ...string) client {
	t.Helper()
	r.closed = make(chan struct{})
	k := open(t,
		startWith(t, &fakePicker{}, Config{Uploads: r, Gateway: func(context.Context) string { return "ns/gw" }}),
		MetadataKeyUpload, "1000")
	headers := &corev3.HeaderMap{}
	for i := 0; i < len(pairs); i += 2 {
		headers.Headers = append(headers.Headers, &corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	k.send(
		&extprocv3.ProcessingRequest{
			Request: &extprocv3.ProcessingRequest_RequestHeaders{
				RequestHeaders: &extprocv3.HttpHeaders{Headers: headers},
			},
		})
	return k
}

func TestUpload_DeclaredLengthIsTakenUntilTheRequestEnds(t *testing.T) {
	r := &room{left: 600}
	k := openUpload(t, r, "content-length", "600")
	if p := k.receive(); p.GetRequestHeaders() == nil || p.GetModeOverride() != nil {
		t.Fatalf("answered %v, want the headers, in the same mode", p)
	}
	if r.left != 0 || r.limit != 1000 || r.gateway != "ns/gw" {
		t.Errorf(`%d bytes are left of %d of Gateway %q, want 0, 1000, "ns/gw"`, r.left, r.limit, r.gateway)
	}
	select {
	case <-r.closed:
		t.Fatal("returned before the request has ended")
	default:
	}
	k.cancel()
	select {
	case <-r.closed:
	case <-time.After(10 * time.Second):
		t.Fatal("never returned")
	}
}

func TestUpload_WithoutRoomIsAnswered503(t *testing.T) {
	for _, length := range []string{"601", "99999999999999999999", "-1"} {
		k := openUpload(t, &room{left: 600}, "content-length", length)
		answer := k.receive().GetImmediateResponse()
		if answer.GetStatus().GetCode() != 503 || !strings.Contains(string(answer.GetBody()),
			`"code":"too_many_uploads"`) {
			t.Errorf("length %s is answered %v, want 503 with too_many_uploads", length, answer)
		}
	}
}

func TestUpload_BodyOfUnknownLengthIsWatched(t *testing.T) {
	k := openUpload(t, &room{left: 10}, headerChunked, "chunked")
	p := k.receive()
	if m := p.GetModeOverride(); m.GetRequestBodyMode() != modeStreamed || m.GetResponseTrailerMode() == 0 {
		t.Fatalf("answered %v, want the body streamed, and trailers", p)
	}
	if gone := p.GetRequestHeaders().GetResponse().GetHeaderMutation().GetRemoveHeaders(); len(gone) != 1 ||
		gone[0] != headerChunked {
		t.Errorf("removes %v, want %s", gone, headerChunked)
	}
	k.send(bodyOf("0123456789", false))
	if p := k.receive(); p.GetRequestBody() == nil {
		t.Fatalf("answered %v, want the body passed", p)
	}
	k.send(bodyOf("0", false))
	if p := k.receive(); p.GetImmediateResponse() == nil {
		t.Fatalf("answered %v, want an immediate response: there is no more room", p)
	}
}

// An upload counts at most maxHeld bytes, because Envoy holds no further bytes of a body.
func TestUpload_CountsNoMoreThanEnvoyHolds(t *testing.T) {
	r := &room{left: maxHeld}
	k := openUpload(t, r, headerChunked, "chunked")
	k.receive()
	for range maxHeld/(1<<20) + 1 {
		k.send(bodyOf(strings.Repeat("a", 1<<20), false))
		if p := k.receive(); p.GetRequestBody() == nil {
			t.Fatalf("answered %v, want the body passed", p)
		}
	}
}
