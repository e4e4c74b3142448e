package server

import (
	"fmt"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// gRPC reads the length of a message first, and the message only when a handler reads it. Until
// then a stream holds at most its window.
const (
	// window bounds what a stream may send before its credential is verified. A fixed window also
	// keeps gRPC from enlarging it.
	window = 64 << 10
	// maxMessage bounds a message before and after decompression. A reconnecting proxy names all
	// its resources.
	maxMessage    = 16 << 20
	maxHeaders    = 32 << 10
	maxStreams    = 16
	verifyTimeout = 5 * time.Second
	// When thousands of proxies reconnect at once, their handshakes are slow, and a short timeout
	// would start them again.
	handshakeTimeout = 20 * time.Second
	// maxName bounds a node's ID, cluster and profile. NAMESPACE/NAME in Kubernetes has at most 317
	// characters.
	maxName   = 1 << 10
	maxDetail = 4 << 10
)

// Options returns the options of a gRPC server for Server.Register. Other services may share the
// server.
func Options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		// The bootstrap makes Envoy ping every 10 s, which gRPC rejects by default.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 5 * time.Second, PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		// Simultaneous requests of a thousand proxies wait on the wire, not in memory.
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxHeaderListSize(maxHeaders), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeTimeout),
	}
}

func checkNames(r request) error {
	for field, value := range map[string]string{"node.id": r.node.GetId(), "node.cluster": r.node.GetCluster(),
		"the profile in node.metadata": r.profile} {
		if len(value) > maxName {
			return fmt.Errorf("%s has %d bytes: at most %d are allowed", field, len(value), maxName)
		}
	}
	return nil
}

// trim drops the list of all extensions, which Envoy also sends.
func trim(n *corev3.Node) *corev3.Node {
	return &corev3.Node{Id: n.GetId(), Cluster: n.GetCluster(), UserAgentVersionType: n.GetUserAgentVersionType()}
}

// clip copies a text, to release the message around it.
func clip(text string, size int) string {
	if len(text) <= size {
		return strings.Clone(text)
	}
	return strings.ToValidUTF8(text[:size], "") + "…"
}
