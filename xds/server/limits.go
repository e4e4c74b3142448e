package server

import (
	"fmt"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Until a handler reads, gRPC buffers at most the flow control window of a stream.
const (
	// window is the flow control window, in bytes. gRPC does not enlarge a fixed window.
	window = 64 << 10
	// maxMessage bounds a message in bytes, before and after decompression. A reconnecting proxy
	// names all its resources.
	maxMessage    = 16 << 20
	maxHeaders    = 32 << 10
	maxStreams    = 16
	verifyTimeout = 5 * time.Second
	// Thousands of simultaneous handshakes are slow, and a shorter timeout would restart them.
	handshakeTimeout = 20 * time.Second
	// maxName bounds a node's ID, cluster and profile, in bytes. A Kubernetes NAMESPACE/NAME has at
	// most 317.
	maxName   = 1 << 10
	maxDetail = 4 << 10
)

// Options returns the options for the gRPC server of Server.Register.
func Options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		// Envoy pings every 10 s, which gRPC rejects by default.
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

// trim drops large fields, such as the list of extensions.
func trim(n *corev3.Node) *corev3.Node {
	return &corev3.Node{Id: n.GetId(), Cluster: n.GetCluster(), UserAgentVersionType: n.GetUserAgentVersionType()}
}

// clip copies the text, to free the message around it.
func clip(text string, size int) string {
	if len(text) <= size {
		return strings.Clone(text)
	}
	return strings.ToValidUTF8(text[:size], "") + "…"
}
