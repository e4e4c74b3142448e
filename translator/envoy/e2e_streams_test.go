package envoy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/translator/model"
)

// The requests in this file have bodies without a foreseeable end. A picker call that waits for the
// end (BUFFERED) would never let Envoy forward them.

// streamRig returns a rig with a host for each body mode that waits for bodies, and for each way
// over hops. All hosts have the same pods.
func streamRig(t *testing.T, p model.Protocol, pods ...model.Endpoint) *rig {
	t.Helper()
	address := pods[0].Address.String()
	ours := startPicker(t,
		map[string]script{"a": {endpoints: address}, "b": {endpoints: address}, "full": {status: 429}})
	// Like real external pickers, this picker waits for the body.
	theirs := startPicker(t, map[string]script{"": {endpoints: address, duplex: true}})
	r := newRig(t, ours.address)
	r.cluster(model.Cluster{Name: named("external"), Protocol: model.GRPC, HealthService: extProcService},
		endpoints(theirs.address)...)
	r.cluster(model.Cluster{Name: named("a"), Protocol: p, Fallback: model.FallbackPods}, pods...)
	hop := model.HopTo("InferencePool", "ns", "b")
	r.hop(model.Hop{Name: hop, Backends: []model.WeightedBackend{pool("a", "b", model.BodyBuffered)}})
	r.cluster(model.Cluster{Name: named("hops"), Protocol: model.HTTP1, Fallback: model.FallbackSpill, Hops: true},
		model.Endpoint{Hop: hop})
	r.forward("Buffered", backends(pool("a", "a", model.BodyBuffered)))
	external := pool("a", "", model.BodyDuplex)
	external.Picker.Cluster = named("external")
	r.forward("Duplex", backends(external))
	r.forward("spilled", backends(spilling(pool("hops", "full", model.BodyBuffered), hop)))
	// Pods with HTTP/2 cannot share a cluster with hops, so they have their own hop.
	r.forward("behind", backends(r.behindHop("behind", pool("a", "a", model.BodyBuffered), hop)))
	r.forward("behind-full", backends(r.behindHop("behind-full", pool("a", "full", model.BodyBuffered), hop)))
	r.start()
	r.healthy("external")
	return r
}

var streamHosts = []string{"Buffered", "Duplex", "spilled", "behind", "behind-full"}

func TestWebSocket_ReachesPoolsWhosePickerReadsBodies(t *testing.T) {
	t.Parallel()
	echo := (&pod{name: "echo"}).serve(t, http.HandlerFunc(echoFrames))
	r := streamRig(t, model.HTTP1, endpoints(echo.address)...)
	for _, host := range streamHosts {
		t.Run(host, func(t *testing.T) { r.upgrades(t, host) })
	}
}

func echoFrames(w http.ResponseWriter, req *http.Request) {
	if req.Header.Get("Upgrade") != "websocket" {
		http.Error(w, "not an upgrade", http.StatusBadRequest)
		return
	}
	conn, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	_, _ = io.Copy(conn, rw)
}

// upgrades checks that a WebSocket returns each word before it sends the next word.
func (r *rig) upgrades(t *testing.T, host string) {
	t.Helper()
	conn, err := net.Dial("tcp", r.address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(15 * time.Second))
	fmt.Fprintf(conn, "GET /v1/realtime HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		host)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v %v, want an upgrade", resp, err)
	}
	for _, word := range []string{"one", "two"} {
		fmt.Fprint(conn, word)
		got := make([]byte, len(word))
		if _, err := io.ReadFull(in, got); err != nil || string(got) != word {
			t.Fatalf("sent %s, got %s, want it back: %v", word, got, err)
		}
	}
}

func TestGRPC_StreamsReachPoolsWhosePickerReadsBodies(t *testing.T) {
	t.Parallel()
	// An ext_proc server stands in for the model server, because ext_proc is bidirectional gRPC.
	server := startPicker(t, map[string]script{"": {endpoints: "answered"}})
	r := streamRig(t, model.H2C, endpoints(server.address)...)
	for _, host := range streamHosts {
		t.Run(host, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
			defer cancel()
			conn, err := grpc.NewClient("passthrough:///"+r.address(), grpc.WithAuthority(host),
				grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			stream, err := extprocv3.NewExternalProcessorClient(conn).Process(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := stream.Send(&extprocv3.ProcessingRequest{
					Request: &extprocv3.ProcessingRequest_RequestBody{
						RequestBody: &extprocv3.HttpBody{Body: []byte("x")},
					},
				}); err != nil {
					t.Fatal(err)
				}
				if _, err := stream.Recv(); err != nil {
					t.Fatalf("no answer while the stream is open: %v", err)
				}
			}
			_ = stream.CloseSend()
			if _, err := stream.Recv(); err != io.EOF {
				t.Errorf("the stream's status was lost: %v, want %v", err, io.EOF)
			}
			// A status other than OK arrives in trailers.
			_, err = healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{Service: "unknown"})
			if err == nil || grpcCode(err) != "NotFound" {
				t.Errorf("want NotFound from the server, got %v", err)
			}
		})
	}
}

func TestRequestBody_UploadsAndBodylessRequestsReachPoolsWhosePickerReadsBodies(t *testing.T) {
	t.Parallel()
	a := startPod(t, "a", 200)
	r := streamRig(t, model.HTTP1, endpoints(a.address)...)
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("file", "speech.wav")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write(bytes.Repeat([]byte("sound"), 1<<20))
	_ = w.Close()
	for _, host := range streamHosts {
		t.Run(host, func(t *testing.T) {
			req := r.request("POST", host, "/v1/audio/transcriptions", form.Bytes())
			req.Header.Set("Content-Type", w.FormDataContentType())
			if got, err := r.do(req); err != nil || got.status != 200 || got.body != digest(form.Bytes()) {
				t.Errorf("upload: got %s %v, want 200 with the digest of the form", got, err)
			}
			for _, method := range []string{"GET", "HEAD", "OPTIONS", "DELETE", "POST"} {
				if got, err := r.do(r.request(method, host, "/v1/files", nil)); err != nil || got.status != 200 ||
					got.pod != "a" {
					t.Errorf("%s without a body: got %s %v, want 200 from a", method, got, err)
				}
			}
		})
	}
}

func grpcCode(err error) string { return status.Code(err).String() }

func TestResponseStream_ArrivesTokenByToken(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	server := &pod{name: "stream"}
	server.serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			fmt.Fprint(w, "data: token\n\n")
			w.(http.Flusher).Flush()
			select { // the next token is sent only after the client has read this one
			case <-next:
			case <-req.Context().Done():
				return
			}
		}
	}))
	r := streamRig(t, model.HTTP1, endpoints(server.address)...)
	for _, host := range streamHosts {
		t.Run(host, func(t *testing.T) {
			resp, err := r.client.Do(r.request("POST", host, "/v1/chat/completions", []byte(`{"stream":true}`)))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			for i := range 3 {
				token := make([]byte, len("data: token\n\n"))
				if _, err := io.ReadFull(resp.Body, token); err != nil {
					t.Fatalf("token %d: got %v, want it before the next", i, err)
				}
				next <- struct{}{}
			}
		})
	}
}
