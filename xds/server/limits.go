package server

import (
	"fmt"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// What a client may send. gRPC reads the length of a message before the message itself, and only
// when a handler asks for it; until then a stream has the window.
const (
	// window is HTTP/2's flow control window of a stream, in bytes: what a stream may send before
	// its credential is verified. A fixed window also keeps gRPC from enlarging it.
	window = 64 << 10
	// maxMessage bounds a message, before and after decompression: a proxy that reconnects names
	// everything that it has.
	maxMessage = 16 << 20
	// maxHeaders bounds a stream's headers, whose largest is a token.
	maxHeaders = 32 << 10
	// maxStreams bounds the streams of a connection. A proxy has one.
	maxStreams = 16
	// verifyTimeout bounds the verification of a stream's credential.
	verifyTimeout = 5 * time.Second
	// handshakeTimeout bounds the handshakes of a connection. The handshakes of thousands of
	// proxies that reconnect at once all take long: a bound that these exceed would have them begin
	// again.
	handshakeTimeout = 20 * time.Second
	// maxName bounds a node's id, cluster and profile: NAMESPACE/NAME of Kubernetes has 317
	// characters at most.
	maxName = 1 << 10
	// maxDetail bounds what is kept of the text of a NACK. Envoy quotes configuration in it.
	maxDetail = 4 << 10
)

// Options are the options of the gRPC server that a Server is registered on. Other services may
// share it.
func Options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		// The bootstrap lets Envoy ping every 10 s; gRPC's default rejects that as an attack.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 5 * time.Second, PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		// The smallest window, also under load: what a thousand proxies send at once waits on the
		// wire, not in memory.
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxHeaderListSize(maxHeaders), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeTimeout),
	}
}

// checkNames returns an error if a proxy names itself by more than a log line should have.
func checkNames(r request) error {
	for field, value := range map[string]string{"node.id": r.node.GetId(), "node.cluster": r.node.GetCluster(),
		"the profile in node.metadata": r.profile} {
		if len(value) > maxName {
			return fmt.Errorf("%s has %d bytes: at most %d are allowed", field, len(value), maxName)
		}
	}
	return nil
}

// trim returns what a stream keeps of its node. Envoy also lists all of its extensions there.
func trim(n *corev3.Node) *corev3.Node {
	return &corev3.Node{Id: n.GetId(), Cluster: n.GetCluster(), UserAgentVersionType: n.GetUserAgentVersionType()}
}

// clip bounds a text for logs and reports, and releases the message that it is a part of.
func clip(text string, size int) string {
	if len(text) <= size {
		return strings.Clone(text)
	}
	return strings.ToValidUTF8(text[:size], "") + "…"
}
