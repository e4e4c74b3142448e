package picks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/endpoint"
)

const (
	Ours = "ours" // the picker of penstock picker
	Echo = "echo" // grpc-go with its default codec and empty responses
)

const (
	PoolHeaders = "ns/headers"
	PoolPrompts = "ns/prompts"
)

// childEnv makes this program a picker. It has the kind and the model servers' addresses, separated
// by spaces.
const childEnv = "PENSTOCK_BENCH_PICKS"

const maxMessage = 33 << 20

// Environment returns the environment variable for a picker of a kind.
func Environment(kind string, servers []netip.AddrPort) string {
	fields := []string{kind}
	for _, s := range servers {
		fields = append(fields, s.String())
	}
	return childEnv + "=" + strings.Join(fields, " ")
}

// AsChild runs a picker, and prints its address, if Environment's variable is set; otherwise it
// returns.
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	var server *grpc.Server
	switch kind {
	case Ours:
		if server, err = ours(ctx, servers); err != nil {
			return err
		}
		listener = picker.Listener(listener)
	case Echo:
		server = NewEcho()
	default:
		return fmt.Errorf("no server %q", kind)
	}
	return server.Serve(listener)
}

func ours(ctx context.Context, servers []string) (*grpc.Server, error) {
	server := grpc.NewServer(picker.ServerOptions(uint32(4*runtime.NumCPU()), nil)...)
	p, err := picker.New(picker.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	var specs []endpoint.Spec
	for _, s := range servers {
		address, err := netip.ParseAddrPort(s)
		if err != nil {
			return nil, err
		}
		specs = append(specs, endpoint.Spec{Addr: address})
	}
	if err := p.SetPools([]picker.Pool{
		{ID: objectid.MustParseTarget(PoolHeaders), Endpoints: specs, Fallbacks: 2},
		{ID: objectid.MustParseTarget(PoolPrompts), Endpoints: specs, Fallbacks: 2, Body: picker.BodyPrompts},
	}); err != nil {
		return nil, err
	}
	p.Register(server)
	go func() { _ = p.Run(ctx) }()
	return server, nil
}

// NewEcho returns an ext_proc server that ignores messages' content.
func NewEcho() *grpc.Server {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage))
	extprocv3.RegisterExternalProcessorServer(server, echo{})
	return server
}

type echo struct {
	extprocv3.UnimplementedExternalProcessorServer
}

func (echo) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
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
		if m.GetRequestBody() != nil {
			answer.Response = &extprocv3.ProcessingResponse_RequestBody{RequestBody: &extprocv3.BodyResponse{}}
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}
