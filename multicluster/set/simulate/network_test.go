package simulate

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/set"
)

// These are gRPC's timeouts as multicluster/channel configures them, for connecting, for a silent
// peer, and between attempts to connect.
const (
	connectTimeout  = time.Second
	clientKeepalive = 13 * time.Second
	serverKeepalive = 40 * time.Second
	firstBackoff    = 100 * time.Millisecond
	longestBackoff  = time.Second
)

// network connects the processes of a world.
type network struct {
	w          *world
	mu         sync.Mutex
	servers    map[string][]*server // by address, the oldest first
	transports []*transport
	dials      map[string]int // number of dials, by process and address
	links      map[string]*link
}

// link has the faults of the network between two nodes.
type link struct {
	cut    time.Time // until then connections are reset or impossible
	silent time.Time // until then messages are delayed
	slow   time.Time // until then messages are slow
}

func newNetwork(w *world) *network {
	return &network{w: w, servers: map[string][]*server{}, dials: map[string]int{}, links: map[string]*link{}}
}

func linkName(a, b string) string { return min(a, b) + max(a, b) }

func (n *network) link(a, b string) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.links[linkName(a, b)]
	if l == nil {
		l = &link{}
		n.links[linkName(a, b)] = l
	}
	return l
}

// send delivers a message of a process to another node, in the order of its queue. A process whose
// power was cut sends nothing.
func (n *network) send(from *process, to *node, queue, name string, fire func()) {
	if from.off.Load() {
		return
	}
	l := n.link(from.node.name, to.name)
	after := time.Duration(1000+n.w.draw(20_000, name)) * time.Microsecond
	if time.Now().Before(l.slow) {
		after = time.Duration(100+n.w.draw(1400, name)) * time.Millisecond
	}
	n.w.schedule(queue, name, after, func() {
		if wait := time.Until(l.silent); wait > 0 {
			n.w.schedule(queue, name+" late", wait+after, fire)
			return
		}
		fire()
	})
}

// server implements set.Server.
type server struct {
	net     *network
	proc    *process
	creds   credentials.TransportCredentials
	stream  grpc.StreamDesc
	impl    any
	address string
	stopped chan struct{}
	once    sync.Once
	running sync.WaitGroup
	serving map[*stream]bool // guarded by net.mu
}

func (p *process) server(f *federation.Federation) set.Server {
	return &server{
		net: p.node.w.net, proc: p, creds: f.ServerCredentials(), address: p.node.address(),
		stopped: make(chan struct{}), serving: map[*stream]bool{},
	}
}

func (s *server) RegisterService(d *grpc.ServiceDesc, impl any) {
	s.stream, s.impl = d.Streams[0], impl
}

func (s *server) Serve(net.Listener) error {
	s.net.mu.Lock()
	s.net.servers[s.address] = append(s.net.servers[s.address], s)
	s.net.mu.Unlock()
	<-s.stopped
	return nil
}

func (s *server) Stop() {
	s.once.Do(func() {
		s.net.mu.Lock()
		s.net.servers[s.address] = slices.DeleteFunc(s.net.servers[s.address], func(o *server) bool { return o == s })
		s.net.mu.Unlock()
		close(s.stopped)
		for _, t := range s.net.transportsOf(s.proc) {
			if t.server == s {
				t.reset(true)
			}
		}
		s.net.mu.Lock()
		for on := range s.serving {
			on.cancel()
		}
		s.net.mu.Unlock()
		s.running.Wait()
	})
}

// listener is a node's port. No connections pass through it.
type listener struct{ address string }

func (l listener) Accept() (net.Conn, error) { return nil, io.EOF }
func (l listener) Close() error              { return nil }
func (l listener) Addr() net.Addr            { return l }
func (l listener) Network() string           { return "simulated" }
func (l listener) String() string            { return l.address }

// connection implements channel.Connection.
type connection struct {
	net     *network
	proc    *process
	to      *node
	address string
	creds   credentials.TransportCredentials

	mu     sync.Mutex
	state  connectivity.State
	over   *transport
	closed bool
}

func (p *process) connect(address string, with credentials.TransportCredentials) (channel.Connection, error) {
	for _, n := range p.node.w.nodes {
		if n.address() == address {
			return &connection{
				net: p.node.w.net, proc: p, to: n, address: address, creds: with, state: connectivity.Idle,
			}, nil
		}
	}
	return nil, fmt.Errorf("nothing has the address %s", address)
}

func (c *connection) GetState() connectivity.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

func (c *connection) Close() error {
	c.mu.Lock()
	over := c.over
	c.closed, c.over, c.state = true, nil, connectivity.Shutdown
	c.mu.Unlock()
	if over != nil {
		over.reset(false)
	}
	return nil
}

func (c *connection) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return status.Error(codes.Unimplemented, "no unary call is simulated")
}

func unavailable(text string) error { return status.Error(codes.Unavailable, text) }

// NewStream implements grpc.ClientConnInterface.
func (c *connection) NewStream(
	ctx context.Context, _ *grpc.StreamDesc, _ string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	wait, most, codec := false, 4<<20, encoding.CodecV2(encoding.GetCodecV2(proto.Name))
	for _, o := range opts {
		switch o := o.(type) {
		case grpc.FailFastCallOption:
			wait = !o.FailFast
		case grpc.MaxRecvMsgSizeCallOption:
			most = o.MaxRecvMsgSize
		case grpc.ForceCodecV2CallOption:
			codec = o.CodecV2
		}
	}
	backoff := firstBackoff
	for {
		over, err := c.transport(ctx)
		if err == nil {
			return over.stream(ctx, codec, most), nil
		}
		if ctx.Err() != nil {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		if !wait {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-time.After(backoff):
		}
		backoff = min(backoff*16/10, longestBackoff)
	}
}

// transport returns the connection's transport, or makes one.
func (c *connection) transport(ctx context.Context) (*transport, error) {
	c.mu.Lock()
	if over := c.over; over != nil && over.broken() == nil {
		c.mu.Unlock()
		return over, nil
	}
	c.over, c.state = nil, connectivity.Connecting
	c.mu.Unlock()
	over, err := c.dial(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && c.closed:
		over.reset(false)
		return nil, unavailable("closed")
	case err != nil:
		c.state = connectivity.TransientFailure
	default:
		c.over, c.state = over, connectivity.Ready
	}
	return over, err
}

// dial connects to a process that serves at the address.
func (c *connection) dial(ctx context.Context) (*transport, error) {
	n := c.net
	n.mu.Lock()
	key := c.proc.id + ">" + c.to.name
	n.dials[key]++
	name := fmt.Sprintf("%s#%d", key, n.dials[key])
	n.mu.Unlock()
	l, found := n.link(c.proc.node.name, c.to.name), make(chan *server, 1)
	n.send(c.proc, c.to, "", name+" connects", func() {
		n.mu.Lock()
		list := n.servers[c.address]
		n.mu.Unlock()
		switch {
		case len(list) == 0, time.Now().Before(l.cut):
			found <- nil
		case len(list) > 1: // an earlier process was replaced without notice
			found <- list[n.w.draw(len(list), name+" process")]
		default:
			found <- list[0]
		}
	})
	timeout := time.NewTimer(connectTimeout)
	defer timeout.Stop()
	var to *server
	select {
	case to = <-found:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	case <-timeout.C:
		return nil, unavailable("timeout")
	}
	if to == nil {
		return nil, unavailable("connection refused")
	}
	t := &transport{net: n, name: name, client: c.proc, server: to}
	if err := t.handshake(ctx, c.address, c.creds); err != nil {
		return nil, unavailable(err.Error())
	}
	n.mu.Lock()
	n.transports = append(n.transports, t)
	n.mu.Unlock()
	return t, nil
}

// transport is one connection between two processes.
type transport struct {
	net                    *network
	name                   string
	client                 *process
	server                 *server
	clientSees, serverSees credentials.AuthInfo

	mu      sync.Mutex
	err     error // why the client gave the transport up
	streams []*stream
	count   int

	resetByClient, resetByServer bool
}

func (t *transport) handshake(ctx context.Context, address string, with credentials.TransportCredentials) error {
	a, b := net.Pipe()
	defer func() { _, _ = a.Close(), b.Close() }()
	ended := make(chan error, 1)
	go func() {
		_, sees, err := t.server.creds.ServerHandshake(b)
		t.serverSees = sees
		if err != nil {
			_ = b.Close()
		}
		ended <- err
	}()
	conn, sees, err := with.ClientHandshake(ctx, address, a)
	if err != nil {
		_ = a.Close()
		<-ended
		return err
	}
	t.clientSees = sees
	go func() { _, _ = io.Copy(io.Discard, conn) }() // reads session tickets
	return <-ended
}

func (t *transport) broken() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (n *network) transportsOf(p *process) (out []*transport) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range n.transports {
		if t.client == p || t.server.proc == p {
			out = append(out, t)
		}
	}
	return out
}

func (n *network) between(a, b string) (out []*transport) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range n.transports {
		if linkName(t.client.node.name, t.server.proc.node.name) == linkName(a, b) {
			out = append(out, t)
		}
	}
	return out
}

func (n *network) lose(a, b string) {
	for _, t := range n.between(a, b) {
		t.lostAtClient()
		t.lostAtServer()
	}
}

// reset ends a transport at one end. The other end must detect it.
func (t *transport) reset(server bool) {
	t.mu.Lock()
	again := server && t.resetByServer || !server && t.resetByClient
	t.resetByServer, t.resetByClient = t.resetByServer || server, t.resetByClient || !server
	t.mu.Unlock()
	switch {
	case again:
	case server:
		t.lostAtServer()
		t.net.send(t.server.proc, t.client.node, "", t.name+" is reset by the server", t.lostAtClient)
	default:
		t.lostAtClient()
		t.net.send(t.client, t.server.proc.node, "", t.name+" is reset by the client", t.lostAtServer)
	}
}

func (t *transport) lostAtClient() {
	t.mu.Lock()
	if t.err == nil {
		t.err = unavailable("connection lost")
	}
	streams := slices.Clone(t.streams)
	t.mu.Unlock()
	for _, s := range streams {
		s.toClient.fail(t.err)
	}
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	t.net.transports = slices.DeleteFunc(t.net.transports, func(o *transport) bool { return o == t })
}

func (t *transport) lostAtServer() {
	t.mu.Lock()
	streams := slices.Clone(t.streams)
	t.mu.Unlock()
	for _, s := range streams {
		s.cancel()
	}
}

// silence makes both ends of a transport give it up after their keepalive timeouts, if silent still
// returns true.
func (t *transport) silence(silent func() bool) {
	t.net.w.schedule("", t.name+" keepalive of the client", clientKeepalive, func() {
		if silent() {
			t.reset(false)
		}
	})
	t.net.w.schedule("", t.name+" keepalive of the server", serverKeepalive, func() {
		if silent() {
			t.lostAtServer()
		}
	})
}

// arrives parses the name of an event that delivers exports; ok is false for other events.
func arrives(name string) (at, from string, ok bool) {
	stream, topic, ok := strings.Cut(name, "<")
	if !ok || !strings.HasPrefix(topic, "exports ") {
		return "", "", false
	}
	client, server, _ := strings.Cut(stream, ">")
	server, _, _ = strings.Cut(server, "#")
	client, _, _ = strings.Cut(client, ".")
	return client, server, true
}
