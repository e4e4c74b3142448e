package features

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"
)

// cluster is a cluster of an import, in the test's process: a picker, and a model server that is
// also the cluster's gateway. In the YAML, ${NAME} is the server's port and ${NAME.picker} the
// picker's port.
type cluster struct {
	extprocv3.UnimplementedExternalProcessorServer
	name    string
	server  *httptest.Server
	pickers *grpc.Server

	mu            sync.Mutex
	declines      typev3.StatusCode // status of the picker's answers; 0: it names the server
	down          bool              // the picker names a closed address
	status        int               // status of the server's answers; 0: 200
	delay         time.Duration     // of the server's answers
	marks         bool              // the server's answers have the header penstock-peer-refused
	asked, served int
	host          string        // host of the last request to the server
	sender        string        // penstock-peer-sender of a request to the server
	token         string        // x-session-token of the last request
	size          int           // body size of the last request
	headers       []http.Header // of requests to the server
	pickHeaders   []string      // of requests to the picker, as text
}

func (s *site) cluster(name string) *cluster {
	s.Helper()
	c := &cluster{name: name}
	c.server = s.backend(name, c)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	c.pickers = grpc.NewServer()
	extprocv3.RegisterExternalProcessorServer(c.pickers, c)
	go func() { _ = c.pickers.Serve(l) }()
	s.Cleanup(c.pickers.Stop)
	s.ports[name+".picker"] = l.Addr().(*net.TCPAddr).Port
	return c
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/health" {
		return
	}
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	delay := c.delay
	c.mu.Unlock()
	time.Sleep(delay) // time to compute the answer
	c.mu.Lock()
	defer c.mu.Unlock()
	c.served, c.host, c.size = c.served+1, r.Host, len(body)
	c.headers = append(c.headers, r.Header)
	c.sender += r.Header.Get("penstock-peer-sender")
	w.Header().Set("x-served-by", c.name)
	c.token = r.Header.Get("x-session-token")
	if r.Header.Get("x-session-id") == "" { // as a picker with session affinity
		w.Header().Set("x-session-token", "at-"+c.name)
	}
	if c.marks {
		w.Header().Set("penstock-peer-refused", "1")
	}
	if c.status != 0 {
		w.WriteHeader(c.status)
	}
	_, _ = io.WriteString(w, `{"choices": []}`)
}

func (c *cluster) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	var body []byte
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil
		}
		body = append(body, m.GetRequestBody().GetBody()...)
		c.note(m.GetRequestHeaders().GetHeaders().GetHeaders())
		if m.GetResponseHeaders() != nil {
			if err := stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{
				ResponseHeaders: &extprocv3.HeadersResponse{},
			}}); err != nil {
				return err
			}
			continue
		}
		if !m.GetRequestHeaders().GetEndOfStream() && !m.GetRequestBody().GetEndOfStream() {
			continue
		}
		answer, declines := c.answer()
		if err := stream.Send(answer); err != nil {
			return err
		}
		for end := declines || m.GetRequestBody() == nil; !end; {
			part := body[:min(len(body), 32<<10)]
			body = body[len(part):]
			end = len(body) == 0
			if err := stream.Send(sendBack(part, end)); err != nil {
				return err
			}
		}
	}
}

func (c *cluster) note(headers []*corev3.HeaderValue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range headers {
		c.pickHeaders = append(c.pickHeaders, h.GetKey()+": "+h.GetValue()+string(h.GetRawValue()))
	}
}

func (c *cluster) answer() (_ *extprocv3.ProcessingResponse, declines bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.declines != 0 {
		declined := &extprocv3.ImmediateResponse{
			Status: &typev3.HttpStatus{Code: c.declines}, Body: []byte(c.name + " is full"),
		}
		return &extprocv3.ProcessingResponse{
			Response: &extprocv3.ProcessingResponse_ImmediateResponse{ImmediateResponse: declined},
		}, true
	}
	if c.down {
		return names("127.0.0.1:1"), false
	}
	return names(c.server.Listener.Addr().String()), false
}

func names(endpoint string) *extprocv3.ProcessingResponse {
	const key = "x-gateway-destination-endpoint"
	pick := &structpb.Struct{Fields: map[string]*structpb.Value{key: structpb.NewStringValue(endpoint)}}
	headers := &extprocv3.HeadersResponse{Response: &extprocv3.CommonResponse{
		HeaderMutation: &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{
			{Header: &corev3.HeaderValue{Key: key, RawValue: []byte(endpoint)}},
		}},
	}}
	return &extprocv3.ProcessingResponse{
		Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: headers},
		DynamicMetadata: &structpb.Struct{
			Fields: map[string]*structpb.Value{"envoy.lb": structpb.NewStructValue(pick)},
		},
	}
}

func sendBack(part []byte, end bool) *extprocv3.ProcessingResponse {
	mutation := &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_StreamedResponse{
		StreamedResponse: &extprocv3.StreamedBodyResponse{Body: part, EndOfStream: end},
	}}
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{
		RequestBody: &extprocv3.BodyResponse{Response: &extprocv3.CommonResponse{BodyMutation: mutation}},
	}}
}

func (c *cluster) set(change func(*cluster)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.declines, c.down, c.status, c.delay, c.marks, c.asked, c.served = 0, false, 0, 0, false, 0, 0
	change(c)
}

func (c *cluster) reset() { c.set(func(*cluster) {}) }

func full(c *cluster) { c.declines = http.StatusTooManyRequests }

func slow(by time.Duration) func(*cluster) { return func(c *cluster) { c.delay = by } }

// counts returns how many calls the picker and the server got since set.
func (c *cluster) counts() (asked, served int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked, c.served
}

// member starts penstock up as a cluster of a ClusterSet. more has further lines of the
// ClusterSet's spec. The ClusterSet has its own file, because penstock clusters join writes it.
func (s *site) member(cluster, more, fixture string, edits ...edit) {
	s.Helper()
	const set = "apiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: gpus}\nspec:\n  cluster: "
	s.Write("set.yaml", set+cluster+"\n"+more)
	s.flags = append(s.flags, "--members-listen", fmt.Sprint("127.0.0.1:", s.Port()),
		"--picker", fmt.Sprint("127.0.0.1:", s.Port()))
	s.up(fixture, edits...)
}

func (s *site) peerListener() string { return fmt.Sprintf("  peerListener: {port: %d}\n", s.Port()) }

func (s *site) join(other *site) {
	s.Helper()
	shown := map[*site]string{}
	for _, at := range []*site{s, other} {
		s.Eventually("clusters show", func() (err error) {
			shown[at], err = at.command("clusters", "show")
			return err
		})
	}
	for at, peer := range map[*site]*site{s: other, other: s} {
		path := filepath.Join(s.TempDir(), "other.yaml")
		if err := os.WriteFile(path, []byte(shown[peer]), 0o600); err != nil {
			s.Fatal(err)
		}
		args := []string{"clusters", "join", path, "--allow-namespaces", "default", "-f", at.Files, "--state", at.state}
		out, err := exec.CommandContext(s.Context(), binary, args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "is a member now") {
			s.Fatalf("join: got %v %s, want that it is a member now", err, out)
		}
	}
}
