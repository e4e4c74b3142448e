//go:build linux

package cri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"

	"github.com/penstock-project/penstock/conformance/lab/image"
	"github.com/penstock-project/penstock/conformance/lab/network"
)

// Config configures a Server.
type Config struct {
	Socket string             // path of the CRI's socket; at most 107 bytes
	Dir    string             // an empty folder, in memory
	Node   *network.Namespace // namespace of the pods in the host's network
	Plan   network.Plan       // has the pods' addresses
	Images *image.Table
	// Self is the path of a program that calls sandbox.Become if its arguments equal Become.
	Self   string
	Become []string
	Log    *slog.Logger
}

// Server is the runtime of one node.
type Server struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer
	Config

	streams streaming.Server
	run     *errgroup.Group

	mu         sync.Mutex
	pods       map[string]*pod
	containers map[string]*container
	addresses  map[netip.Addr]bool
	last       netip.Addr
	made       int
}

// New returns a Server; Run starts it.
func New(config Config) *Server {
	return &Server{
		Config: config, pods: map[string]*pod{}, containers: map[string]*container{},
		addresses: map[netip.Addr]bool{}, last: config.Plan.Pods().Addr(),
	}
}

// Run serves until ctx is done, and then ends every container.
func (s *Server) Run(ctx context.Context) error {
	for _, dir := range []string{s.Dir, s.roots(), s.layers()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("container runtime: %w", err)
		}
	}
	sock, err := net.Listen("unix", s.Socket)
	if err != nil {
		return fmt.Errorf("container runtime: %w", err)
	}
	var stream net.Listener
	err = s.Node.Do(func() (err error) { // the kubelet connects from the node's namespace
		stream, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	})
	if err != nil {
		return fmt.Errorf("container runtime: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	s.run = g
	if err := s.serveStreams(ctx, g, stream); err != nil {
		return err
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(16<<20), grpc.MaxSendMsgSize(16<<20))
	runtimeapi.RegisterRuntimeServiceServer(server, s)
	runtimeapi.RegisterImageServiceServer(server, s)
	g.Go(func() error { return server.Serve(sock) })
	g.Go(func() error {
		<-ctx.Done()
		server.Stop()
		s.killAll()
		return nil
	})
	if err := g.Wait(); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("container runtime: %w", err)
	}
	return nil
}

func (s *Server) roots() string  { return filepath.Join(s.Dir, "roots") }
func (s *Server) layers() string { return filepath.Join(s.Dir, "layers") }

func (s *Server) killAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.containers {
		if c.process != nil && c.finished.IsZero() {
			_ = c.process.Kill()
		}
	}
}

// newID returns an ID of 64 hexadecimal digits, as other runtimes do. The caller holds mu.
func (s *Server) newID() string {
	s.made++
	return fmt.Sprintf("%064x", s.made)
}

// address assigns the address that has been free for longest. The caller holds mu.
func (s *Server) address() (netip.Addr, error) {
	pods := s.Plan.Pods()
	for next := s.last.Next(); next != s.last; next = next.Next() {
		if !pods.Contains(next) {
			next = pods.Addr() // the network address, never assigned
			continue
		}
		if !s.addresses[next] {
			s.addresses[next], s.last = true, next
			return next, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no address of %s is free", pods)
}
