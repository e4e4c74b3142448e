package translator

import (
	"slices"
	"strings"

	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/model"
)

type listenerTables struct {
	streams   *graph.Table[hostKey, model.Stream]
	listeners *graph.Table[portKey, encoded]

	streamsByPort *graph.Index[hostKey, model.Stream, portKey]
}

func (t *tables) declareListeners() {
	t.streams = graph.Declare(t.engine, graph.Table[hostKey, model.Stream]{
		Name:    "streams",
		Order:   hostKey.compare,
		Sources: []graph.Source[hostKey]{t.attachmentsByStream, t.gatewaysByStream},
		Compute: t.stream,
	})
	t.streamsByPort = graph.NewIndex(t.streams, "port", func(key hostKey, _ model.Stream) []portKey {
		scheme, port, _ := model.ParseChain(key.chain)
		return []portKey{{key.gateway, model.Socket{UDP: scheme == model.SchemeUDP, Port: port}}}
	})
	t.listeners = declareResources(t, graph.Table[portKey, encoded]{
		Name:    "listeners",
		Order:   portKey.compare,
		Sources: []graph.Source[portKey]{t.gatewaysByPort},
		Compute: t.listener,
	})
}

func (t *tables) stream(r *graph.Reader, key hostKey) (model.Stream, bool) {
	g, ok := t.gateways.Get(r, key.gateway)
	if !ok {
		return model.Stream{}, false
	}
	var attached []*model.Attachment
	for _, row := range t.attachmentsByStream.By(r, key) {
		attached = append(attached, row.Value)
	}
	s := gatewayapi.Stream(g, key.chain, key.host, attached)
	if s == nil {
		return model.Stream{}, false
	}
	return *s, true
}

func (t *tables) listener(r *graph.Reader, key portKey) (encoded, bool) {
	g, ok := t.gateways.Get(r, key.gateway)
	if !ok {
		return encoded{}, false
	}
	for _, p := range gatewayapi.Ports(g) {
		if p.Socket() != key.socket {
			continue
		}
		if key.socket.UDP { // a UDP route only changes its cluster's endpoints
			return one(envoy.DatagramListener(t.cfg.Envoy, p)), true
		}
		_, streams := t.streamsByPort.Each(r, key)
		for _, s := range streams {
			p.Streams = append(p.Streams, s)
			p.Owners = append(p.Owners, s.Owners...)
		}
		slices.SortFunc(p.Streams, func(a, b model.Stream) int { return strings.Compare(a.Name, b.Name) })
		return one(envoy.Listener(t.cfg.Envoy, p)), true
	}
	return encoded{}, false
}
