package extproc

import (
	"context"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// watching is a Watches that passes each request to seen, and the function that ends the request to
// end.
type watching struct {
	err    error
	denies *Answer // if not nil, denies each request at once
	seen   chan Watched
	end    chan func(*Answer)
	done   chan struct{}
}

func (w *watching) Watch(_ context.Context, in Watched, end func(*Answer)) (func(), error) {
	if w.err != nil {
		return nil, w.err
	}
	if w.denies != nil {
		end(w.denies)
	}
	w.seen <- in
	w.end <- end
	return func() { close(w.done) }, nil
}

func openWatched(t *testing.T, w *watching, path string, metadata ...string) client {
	t.Helper()
	w.seen, w.end, w.done = make(chan Watched, 1), make(chan func(*Answer), 1), make(chan struct{})
	k := open(t,
		startWith(t, &fakePicker{}, Config{Watches: w, Gateway: func(context.Context) string { return "ns/gw" }}),
		metadata...)
	k.send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{
		RequestHeaders: &extprocv3.HttpHeaders{Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
			{Key: ":path", RawValue: []byte(path)}}}, EndOfStream: true}}})
	return k
}

var watchedKeys = []string{MetadataKeyWatch, "grant", MetadataKeyPolicies, "ns/a,ns/b", MetadataKeyPools, "ns/p"}

func TestWatch_CallStaysOpenUntilTheRequestIsDenied(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/chat/completions": `{"error":{"code":"invalid_api_key","message":"no","param":null,` +
			`"type":"invalid_request_error"}}`,
		"/v1/messages": `{"error":{"message":"no","type":"authentication_error"},"type":"error"}`,
	} {
		w := &watching{}
		k := openWatched(t, w, path, watchedKeys...)
		if p := k.receive(); p.GetRequestHeaders() == nil {
			t.Fatalf("answered %v, want the headers passed", p)
		}
		in := <-w.seen
		if in.Gateway != "ns/gw" || in.Grant != "grant" || len(in.Policies) != 2 || in.Policies[1] != "ns/b" ||
			len(in.Pools) != 1 {
			t.Errorf("watches %+v, want Gateway ns/gw with its grant, two policies and one pool", in)
		}
		(<-w.end)(&Answer{Status: 401, Reason: "invalid_api_key", Message: "no"})
		answer := k.receive().GetImmediateResponse()
		if answer.GetStatus().GetCode() != 401 || string(answer.GetBody()) != want {
			t.Errorf("%s: answered %v, want 401 with %s", path, answer, want)
		}
		k.cancel()
		select {
		case <-w.done:
		case <-time.After(10 * time.Second):
			t.Fatal("the request's end is not reported")
		}
	}
}

func TestWatch_RequestThatIsDeniedAtOnceDoesNotPass(t *testing.T) {
	w := &watching{denies: &Answer{Status: 403, Reason: "not_permitted"}}
	k := openWatched(t, w, "/", watchedKeys...)
	if p := k.receive(); p.GetImmediateResponse().GetStatus().GetCode() != 403 {
		t.Errorf("answered %v, want 403", p)
	}
}

func TestWatch_TrailersOfAResponsePass(t *testing.T) {
	k := openWatched(t, &watching{}, "/", watchedKeys...)
	k.receive()
	k.send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseTrailers{
		ResponseTrailers: &extprocv3.HttpTrailers{}}})
	if p := k.receive(); p.GetResponseTrailers() == nil {
		t.Errorf("answered %v, want the trailers passed", p)
	}
}

// If the call has no grant, or the process cannot watch requests, the call fails. Envoy then denies
// the request.
func TestWatch_RequestThatCannotBeWatchedFails(t *testing.T) {
	for name, c := range map[string]struct {
		watches  Watches
		metadata []string
		want     codes.Code
	}{
		"no Watches": {nil, watchedKeys, codes.Unavailable},
		"no grant": {&watching{err: status.Error(codes.PermissionDenied, "no")}, []string{MetadataKeyWatch, ""},
			codes.PermissionDenied},
		"full": {&watching{err: status.Error(codes.Unavailable, "full")}, watchedKeys, codes.Unavailable},
	} {
		k := open(t, startWith(t, &fakePicker{}, Config{Watches: c.watches}), c.metadata...)
		k.send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{
			RequestHeaders: &extprocv3.HttpHeaders{}}})
		if _, err := k.Recv(); status.Code(err) != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
