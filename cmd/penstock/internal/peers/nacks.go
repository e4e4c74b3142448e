package peers

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/multicluster/channel"
)

// nackRetention is how long the NACKs of a process's Envoys hold when the process is gone: the
// Envoys are about to connect to another one, and to reject the same there.
const nackRetention = time.Minute

// NACKs puts what Envoys reject on the board, one source an Envoy, and publishes it: the process
// that writes status may be another one. It implements server.Reports.
type NACKs struct {
	board     *status.Board
	topic     *channel.Topic
	elsewhere *channel.Mirror[[]report.Report]

	mu sync.Mutex // two streams of one node, old and new, are reported in order
}

// NewNACKs makes it.
func NewNACKs(b *status.Board, c *channel.Channel) *NACKs {
	n := &NACKs{board: b, topic: c.Topic("nacks")}
	n.elsewhere = channel.NewMirror(n.topic, channel.MirrorConfig[[]report.Report]{
		Retention: nackRetention,
		Decode: func(value []byte) (reports []report.Report, err error) {
			return reports, json.Unmarshal(value, &reports)
		},
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
	n.elsewhere.DropStale(proxy) // what it rejected at a process that is gone is outdated
	if len(reports) == 0 {
		n.topic.Retract(proxy)
		return
	}
	if raw, err := json.Marshal(reports); err == nil { // plain values
		n.topic.Publish(channel.Item{Key: proxy, Value: raw})
	}
}
