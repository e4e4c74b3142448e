//go:build linux

package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

func (s *Server) serveStreams(ctx context.Context, g *errgroup.Group, l net.Listener) error {
	config := streaming.DefaultConfig
	config.Addr = l.Addr().String()
	server, err := streaming.NewServer(config, streams{s})
	if err != nil {
		return fmt.Errorf("streaming server: %w", err)
	}
	s.streams = server
	h := &http.Server{Handler: server, ReadHeaderTimeout: 10 * time.Second}
	g.Go(func() error {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return h.Close()
	})
	return nil
}

// Exec returns the URL of a command's streams.
func (s *Server) Exec(_ context.Context, req *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	if req.GetTty() {
		return nil, status.Error(codes.Unimplemented, "the lab has no terminals: omit -t")
	}
	return s.streams.GetExec(req)
}

// PortForward returns the URL of a pod's port.
func (s *Server) PortForward(_ context.Context, req *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse,
	error) {
	return s.streams.GetPortForward(req)
}

type streams struct{ s *Server }

func (x streams) Exec(ctx context.Context, id string, args []string, in io.Reader, out, errs io.WriteCloser, _ bool,
	_ <-chan remotecommand.TerminalSize) error {
	c, err := x.s.find(id)
	if err != nil {
		return err
	}
	cmd := c.command(ctx, args)
	// An interface with a typed nil is not nil, so set only streams that exist.
	if in != nil {
		cmd.Stdin = in
	}
	if out != nil {
		cmd.Stdout = out
	}
	if errs != nil {
		cmd.Stderr = errs
	}
	if err := x.s.enter(c, cmd); err != nil {
		return err
	}
	err = cmd.Wait()
	code, other := exitCode(err)
	if other != nil {
		return other
	}
	if code != 0 {
		return &utilexec.CodeExitError{Err: err, Code: code}
	}
	return nil
}

func (x streams) Attach(context.Context, string, io.Reader, io.WriteCloser, io.WriteCloser, bool,
	<-chan remotecommand.TerminalSize) error {
	return status.Error(codes.Unimplemented, "the lab cannot attach: use kubectl logs or exec")
}

func (x streams) PortForward(ctx context.Context, id string, port int32, stream io.ReadWriteCloser) error {
	x.s.mu.Lock()
	p := x.s.pods[id]
	x.s.mu.Unlock()
	if p == nil {
		return status.Errorf(codes.NotFound, "no pod %s", id)
	}
	var conn net.Conn
	err := p.ns.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 5*time.Second)
		return err
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	g, _ := errgroup.WithContext(ctx)
	g.Go(func() error {
		_, err := io.Copy(conn, stream)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		return err
	})
	g.Go(func() error {
		_, err := io.Copy(stream, conn)
		_ = stream.Close()
		return err
	})
	return g.Wait()
}
