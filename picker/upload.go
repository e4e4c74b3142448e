package picker

import (
	"context"
	"net"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/peer"

	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/upload"
)

// Upload implements extproc.Uploads. Of an Envoy's limit each process answers for an equal part, because an Envoy's calls are
// spread over all of them.
func (p *Picker) Upload(ctx context.Context, gateway, client string, limit int64) extproc.Upload {
	proxy := upload.Proxy{Gateway: gateway}
	if from, ok := peer.FromContext(ctx); ok {
		if host, _, err := net.SplitHostPort(from.Addr.String()); err == nil {
			proxy.Address = host
		}
	}
	return countedUpload{p.uploads.Open(proxy, network(client), limit/int64(1+p.peers.Others())), p.metrics.uploads.WithLabelValues(gateway)}
}

// network is the part of a client's address that one client has to itself: all of an IPv4 address, and 64 bits of an IPv6 address. What is
// no address stays as it is.
func network(client string) string {
	a, err := netip.ParseAddr(client)
	if err != nil {
		return client
	}
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	p, _ := a.Prefix(64) // fails for more bits than the address has
	return p.String()
}

// countedUpload counts when there is no room.
type countedUpload struct {
	*upload.Upload
	rejected prometheus.Counter
}

// Take implements extproc.Upload.
func (u countedUpload) Take(n int64) bool {
	if u.Upload.Take(n) {
		return true
	}
	u.rejected.Inc()
	return false
}
