package picker

import (
	"context"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/peer"

	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/upload"
)

// Upload implements extproc.Uploads. Each picker process grants an equal part of the limit, because
// an Envoy spreads its calls over all processes.
func (p *Picker) Upload(ctx context.Context, gateway string, limit int64) extproc.Upload {
	proxy := upload.Proxy{Gateway: gateway}
	if from, ok := peer.FromContext(ctx); ok {
		if host, _, err := net.SplitHostPort(from.Addr.String()); err == nil {
			proxy.Address = host
		}
	}
	others, _ := p.config.Peers.Order()
	return countedUpload{p.wire.uploads.Open(proxy, limit/int64(1+others)), p.metrics.uploads.WithLabelValues(gateway)}
}

type countedUpload struct {
	*upload.Upload
	rejected prometheus.Counter
}

func (u countedUpload) Take(n int64) bool {
	if u.Upload.Take(n) {
		return true
	}
	u.rejected.Inc()
	return false
}
