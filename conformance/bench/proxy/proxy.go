package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/penstock-project/penstock/xds/resource"
)

const method = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"

// Have maps a type and name to the version that a proxy has.
type Have map[resource.Type]map[string]string

// Count returns the number of resources.
func (h Have) Count() (n int) {
	for _, names := range h {
		n += len(names)
	}
	return n
}

// Config configures a Proxy.
type Config struct {
	Address string // host:port of the control plane
	Node    string
	Cluster string // node.cluster: the gateway
	// Handle is called with each response after its ACK; nil means none.
	Handle func(Response)
	// Follow also subscribes to received clusters' endpoints, and received listeners' routes and
	// secrets.
	Follow bool
}

// Proxy is an ADS stream on its own connection.
type Proxy struct {
	config Config
	conn   *grpc.ClientConn
	stream grpc.ClientStream
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	err    error  // valid after done closes
	node   []byte // an encoded request with only the node; nil once sent

	sending sync.Mutex // gRPC streams allow one sender at a time

	mu   sync.Mutex
	have Have
	last time.Time
}

// Connect opens a connection and a stream, and sends nothing.
func Connect(ctx context.Context, c Config) (*Proxy, error) {
	conn, err := grpc.NewClient("passthrough:///"+c.Address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(256<<20)),
		grpc.WithReadBufferSize(4<<10),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method,
		grpc.WaitForReady(true))
	if err != nil {
		cancel()
		return nil, errors.Join(err, conn.Close())
	}
	p := &Proxy{config: c, conn: conn, stream: stream, ctx: ctx, cancel: cancel, done: make(chan struct{}),
		have: Have{}}
	go p.read()
	node, err := resource.Marshal(&corev3.Node{Id: c.Node, Cluster: c.Cluster})
	if err != nil {
		p.Close()
		return nil, err
	}
	p.node = protowire.AppendBytes(protowire.AppendTag(nil, requestNode, protowire.BytesType), node)
	return p, nil
}

// Close ends the stream and connection, and waits for the reader.
func (p *Proxy) Close() {
	p.cancel()
	<-p.done
	_ = p.conn.Close()
}

// Send sends an encoded request, which is not modified: proxies may share it.
func (p *Proxy) Send(request []byte) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	if p.node == nil {
		return p.stream.SendMsg([][]byte{request})
	}
	first := [][]byte{p.node, request}
	p.node = nil
	return p.stream.SendMsg(first)
}

// Start subscribes to all clusters and listeners, as an Envoy without resources.
func (p *Proxy) Start() error {
	if err := p.Send(request(resource.Cluster.URL())); err != nil {
		return err
	}
	return p.Send(request(resource.Listener.URL()))
}

// Subscribe subscribes to resources by name.
func (p *Proxy) Subscribe(t resource.Type, names ...string) error {
	return p.Send(Subscription(t, names...))
}

// Subscription encodes a subscription to resources by name.
func Subscription(t resource.Type, names ...string) []byte {
	b := request(t.URL())
	for _, name := range names {
		b = appendString(b, requestSubscribe, name)
	}
	return b
}

// Resumption returns a reconnecting proxy's first requests, in Envoy's order.
func Resumption(h Have) (requests [][]byte) {
	for _, t := range []resource.Type{resource.Cluster, resource.Endpoints, resource.Listener, resource.Secret,
		resource.RouteConfiguration} {
		if len(h[t]) == 0 {
			continue
		}
		b := request(t.URL())
		names := slices.Sorted(maps.Keys(h[t]))
		if t != resource.Cluster && t != resource.Listener {
			for _, name := range names {
				b = appendString(b, requestSubscribe, name)
			}
		}
		for _, name := range names {
			b = appendInitial(b, name, h[t][name])
		}
		requests = append(requests, b)
	}
	return requests
}

// Have returns a copy of the received versions.
func (p *Proxy) Have() Have {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := Have{}
	for t, names := range p.have {
		out[t] = maps.Clone(names)
	}
	return out
}

// Last returns the last response's time.
func (p *Proxy) Last() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// Ended returns a channel that closes when the stream ends.
func (p *Proxy) Ended() <-chan struct{} { return p.done }

// Err returns why the stream ended; nil while it is open, and after Close.
func (p *Proxy) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

func (p *Proxy) read() {
	defer close(p.done)
	var b []byte
	for {
		if err := p.stream.RecvMsg(&b); err != nil {
			if p.ctx.Err() == nil { // the stream's context also ends with the connection
				p.err = err
			}
			return
		}
		if err := p.take(b, time.Now()); err != nil {
			p.err = err
			return
		}
	}
}

func (p *Proxy) take(b []byte, at time.Time) error {
	r, err := parseResponse(b)
	r.At = at
	if err != nil {
		return fmt.Errorf("response: %w", err)
	}
	if err := p.Send(appendString(request(r.URL), requestNonce, r.Nonce)); err != nil {
		return err
	}
	t, _ := resource.TypeOf(r.URL)
	if p.config.Follow {
		p.note(t, r)
		if err := p.follow(t, r); err != nil {
			return err
		}
	}
	if p.config.Handle != nil {
		p.config.Handle(r)
	}
	return nil
}

func (p *Proxy) note(t resource.Type, r Response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = r.At
	if p.have[t] == nil {
		p.have[t] = map[string]string{}
	}
	for _, item := range r.Items {
		p.have[t][item.Name] = item.Version
	}
	for _, name := range r.Removed {
		delete(p.have[t], name)
	}
}

func (p *Proxy) follow(t resource.Type, r Response) error {
	want := map[resource.Type][]string{}
	for _, item := range r.Items {
		switch t {
		case resource.Cluster:
			want[resource.Endpoints] = append(want[resource.Endpoints], item.Name)
		case resource.Listener:
			names, err := namedBy(item.Body)
			if err != nil {
				return err
			}
			for t, list := range names {
				want[t] = append(want[t], list...)
			}
		}
	}
	for _, t := range resource.Types() {
		if len(want[t]) > 0 {
			if err := p.Subscribe(t, want[t]...); err != nil {
				return err
			}
		}
	}
	return nil
}
