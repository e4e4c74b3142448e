package peers

import (
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/multicluster/channel"
)

// Answers puts findings about responses of an import's gateways on the board, by exporting cluster
// and process, and publishes them for the leader.
type Answers struct {
	board *status.Board
	topic *channel.Topic
}

// NewAnswers makes an Answers.
func NewAnswers(b *status.Board, c *channel.Channel) *Answers {
	a := &Answers{board: b, topic: c.Topic("unrouted")}
	channel.NewMirror(a.topic, channel.MirrorConfig[report.Report]{
		Decode: fromJSON[report.Report],
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

// Report sets the report on an exporting cluster.
func (a *Answers) Report(cluster string, r report.Report) {
	a.board.Replace(answersSource(cluster), r)
	a.topic.Publish(channel.Item{Key: cluster, Value: toJSON(r)})
}

// Resolve removes the report on an exporting cluster.
func (a *Answers) Resolve(cluster string) {
	a.board.Replace(answersSource(cluster))
	a.topic.Retract(cluster)
}
