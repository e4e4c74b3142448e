package peers

import (
	"encoding/json"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/multicluster/channel"
)

// Answers puts on the board of an import what its gateways answer, and publishes it: an Envoy
// reports to any process, and the process that writes status may be another one. There is one
// source per exporting cluster and process. The topic "answers" is that of Asked.
type Answers struct {
	board *status.Board
	topic *channel.Topic
}

// NewAnswers makes it.
func NewAnswers(b *status.Board, c *channel.Channel) *Answers {
	a := &Answers{board: b, topic: c.Topic("unrouted")}
	channel.NewMirror(a.topic, channel.MirrorConfig[report.Report]{
		Decode: func(value []byte) (out report.Report, err error) { return out, json.Unmarshal(value, &out) },
		Changed: func(changes []channel.Change[report.Report]) {
			for _, ch := range changes {
				source := answersSource(ch.Key) + " at " + ch.Peer
				if ch.Gone {
					b.Replace(source)
				} else {
					b.Replace(source, ch.Value)
				}
			}
		},
	})
	return a
}

func answersSource(cluster string) string { return status.Instance(status.Answers, cluster) }

// Report sets what is to be reported of an exporting cluster.
func (a *Answers) Report(cluster string, is report.Report) {
	a.board.Replace(answersSource(cluster), is)
	if raw, err := json.Marshal(is); err == nil { // plain values
		a.topic.Publish(channel.Item{Key: cluster, Value: raw})
	}
}

// Resolve takes it back.
func (a *Answers) Resolve(cluster string) {
	a.board.Replace(answersSource(cluster))
	a.topic.Retract(cluster)
}
