package main

import (
	"errors"
	"io"
	"net"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
)

// echo is the external processor with the least cost for a request: it answers each message unread.
// Its own CPU counts nowhere.
type echo struct {
	extprocv3.UnimplementedExternalProcessorServer
}

func serveEcho() (port int, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, nil, err
	}
	server := grpc.NewServer()
	extprocv3.RegisterExternalProcessorServer(server, echo{})
	go func() { _ = server.Serve(l) }()
	return l.Addr().(*net.TCPAddr).Port, server.Stop, nil
}

// Process implements the service.
func (echo) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
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
