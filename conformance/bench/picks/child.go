package picks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"github.com/cespare/xxhash/v2"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/flow"
)

// The kinds of servers.
const (
	Ours = "ours" // the production picker, as penstock picker runs it
	Flow = "flow" // ours with flow control, of pools that are never saturated
	// Ours with an InferenceModel that replaces the model of each request, alone and as one of
	// 1,000.
	RewriteOne  = "rewrite-one"
	RewriteMany = "rewrite-many"
	// Ours with a processor that never answers.
	Process = "process"
	Echo    = "echo" // grpc-go with its default codec; it answers every message with an empty one
	JSON    = "json" // Echo that also decodes each body and hashes its prompt in blocks, as llm-d's router does
	// They read the metrics pages of a pool in use as a picker does, and pick themselves: once a
	// second in all, or often enough for each page to be read every 50 ms.
	Idle = "idle"
	Busy = "busy"
)

// The pools of Ours, which have the same servers.
const (
	PoolHeaders = "ns/headers" // picks by headers alone
	PoolPrompts = "ns/prompts" // reads prompts, and knows prefixes
)

// childEnv makes this program a server; it has the kind and the addresses of the model servers,
// separated by spaces.
const childEnv = "PENSTOCK_BENCH_PICKS"

// maxMessage is the largest message that a server takes, in bytes.
const maxMessage = 33 << 20

// Environment returns what makes this program's executable a server of a kind.
func Environment(kind string, servers []netip.AddrPort) string {
	fields := []string{kind}
	for _, s := range servers {
		fields = append(fields, s.String())
	}
	return childEnv + "=" + strings.Join(fields, " ")
}

// AsChild serves and does not return if the environment has Environment's variable. It prints its
// address, and ends with its standard input.
func AsChild() {
	fields := strings.Fields(os.Getenv(childEnv))
	if len(fields) == 0 {
		return
	}
	if err := serve(fields[0], fields[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "picks:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(kind string, servers []string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var server *grpc.Server
	switch kind {
	case Ours, Flow, RewriteOne, RewriteMany, Process:
		server = grpc.NewServer(picker.ServerOptions(uint32(4*runtime.NumCPU()), nil)...)
		p, err := picker.New(picker.Config{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		var specs []endpoint.Spec
		for _, s := range servers {
			address, err := netip.ParseAddrPort(s)
			if err != nil {
				return err
			}
			specs = append(specs, endpoint.Spec{Addr: address})
		}
		var control *picker.FlowControl
		if kind == Flow {
			control = &picker.FlowControl{Saturation: flow.Saturation{Queue: 1e9}}
		}
		var processor *picker.Processor
		if kind == Process {
			at, err := hang()
			if err != nil {
				return err
			}
			processor = &picker.Processor{Host: at.String(), Addresses: []dial.Address{{AddrPort: at, Cleartext: true}}}
		}
		err = p.SetPools([]picker.Pool{
			{ID: objectid.MustParseTarget(PoolHeaders), Endpoints: specs, Fallbacks: 2, FlowControl: control},
			{ID: objectid.MustParseTarget(PoolPrompts), Endpoints: specs, Fallbacks: 2, FlowControl: control,
				Body: picker.BodyPrompts, Models: models(kind), Processor: processor},
		})
		if err != nil {
			return err
		}
		p.Register(server)
		go func() { _ = p.Run(ctx) }()
	case Idle, Busy:
		go scrape(ctx, kind == Busy, servers)
		server = grpc.NewServer()
	case Echo, JSON:
		server = grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage))
		extprocv3.RegisterExternalProcessorServer(server, echo{reads: kind == JSON})
	default:
		return fmt.Errorf("no server %q", kind)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	switch kind {
	case Ours, Flow, RewriteOne, RewriteMany, Process: // as internal/app serves it
		listener = picker.Listener(listener)
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Stop()
	}()
	return server.Serve(listener)
}

// hang accepts connections, and answers nothing.
func hang() (netip.AddrPort, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return netip.AddrPort{}, err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}()
		}
	}()
	return netip.ParseAddrPort(l.Addr().String())
}

// models are the InferenceModels of a kind; nil for most.
func models(kind string) *picker.Models {
	n := map[string]int{RewriteOne: 1, RewriteMany: 1000}[kind]
	if n == 0 {
		return nil
	}
	m := &picker.Models{Named: map[string]picker.ModelRule{}}
	for i := range n {
		name := fmt.Sprint(chatModel, "-", i)
		if i == 0 {
			name = chatModel
		}
		m.Named[name] = picker.ModelRule{
			Targets: []picker.ModelTarget{{Name: "v1", Weight: 75}, {Name: "v2", Weight: 25}},
		}
	}
	return m
}

type echo struct {
	extprocv3.UnimplementedExternalProcessorServer
	reads bool
}

func (e echo) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		answer := &extprocv3.ProcessingResponse{
			Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{}},
		}
		if body := m.GetRequestBody(); body != nil {
			if e.reads {
				runtime.KeepAlive(hashes(body.GetBody()))
			}
			answer.Response = &extprocv3.ProcessingResponse_RequestBody{RequestBody: &extprocv3.BodyResponse{}}
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

// hashes is a prompt's chain of blocks as llm-d's router computes it: the body becomes a map, the
// messages text again, and each 256 bytes of it a hash that continues that of the block before.
func hashes(body []byte) (chain []uint64) {
	var request map[string]any
	if json.Unmarshal(body, &request) != nil {
		return nil
	}
	text, err := json.Marshal(request["messages"])
	if err != nil {
		return nil
	}
	var digest xxhash.Digest
	for before := uint64(0); len(text) > 0; {
		n := min(len(text), 256)
		digest.ResetWithSeed(before)
		_, _ = digest.Write(text[:n])
		before, text = digest.Sum64(), text[n:]
		chain = append(chain, before)
	}
	return chain
}
