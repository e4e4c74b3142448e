package peers

import (
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/multicluster/channel"
)

// nackRetention is how long a lost peer's NACKs stay, until its Envoys send them to another
// process.
const nackRetention = time.Minute

// NACKs puts NACKs on the board by Envoy, and publishes them for the leader. It implements
// server.Reports.
type NACKs struct {
	board     *status.Board
	topic     *channel.Topic
	elsewhere *channel.Mirror[[]report.Report]

	mu sync.Mutex // orders the reports of an old and a new stream of one node
}

// NewNACKs makes a NACKs.
func NewNACKs(b *status.Board, c *channel.Channel) *NACKs {
	n := &NACKs{board: b, topic: c.Topic("nacks")}
	n.elsewhere = channel.NewMirror(n.topic, channel.MirrorConfig[[]report.Report]{
		Retention: nackRetention,
		Decode:    fromJSON[[]report.Report],
		Changed: func(changes []channel.Change[[]report.Report]) {
			for _, ch := range changes {
				source := proxySource(ch.Key) + " at " + ch.Peer
				if ch.Gone {
					b.Replace(source)
				} else {
					b.Replace(source, ch.Value...)
				}
			}
		},
	})
	return n
}

func proxySource(proxy string) string { return status.Instance(status.Proxy, proxy) }

// Rejected implements server.Reports.
func (n *NACKs) Rejected(gateway, node string, reports []report.Report) {
	proxy := gateway + " " + node
	n.mu.Lock()
	defer n.mu.Unlock()
	n.board.Replace(proxySource(proxy), reports...)
	n.elsewhere.DropStale(proxy)
	if len(reports) == 0 {
		n.topic.Retract(proxy)
		return
	}
	n.topic.Publish(channel.Item{Key: proxy, Value: toJSON(reports)})
}
