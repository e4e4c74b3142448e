package server

import (
	"cmp"
	"slices"
	"time"

	"github.com/penstock-project/penstock/xds/publish"
	"github.com/penstock-project/penstock/xds/resource"
)

type gateway struct {
	streams map[*stream]struct{}
	waits   map[*wait]struct{}
}

// The caller holds s.mu.
func (s *Server) gateway(name string) *gateway {
	g := s.gateways[name]
	if g == nil {
		g = &gateway{streams: map[*stream]struct{}{}, waits: map[*wait]struct{}{}}
		s.gateways[name] = g
	}
	return g
}

func (s *Server) dropUnused(name string, g *gateway) {
	if len(g.streams) == 0 && len(g.waits) == 0 {
		delete(s.gateways, name)
	}
}

func (s *Server) add(st *stream) {
	s.enter(st)
	s.metrics.connected(1)
	s.config.Log.Info("proxy connected", "gateway", st.gateway, "node", st.node.GetId())
}

func (s *Server) enter(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gateway(st.gateway)
	g.streams[st] = struct{}{}
	s.count(st.gateway, g)
	st.inherited = s.rejections.ofAnother(st)
	if s.stopped {
		st.end(errStopped)
	}
	for w := range g.waits {
		st.await(w)
	}
}

func (s *Server) remove(st *stream) {
	s.leave(st)
	st.close()
	s.metrics.connected(-1)
	s.config.Log.Info("proxy disconnected", "gateway", st.gateway, "node", st.node.GetId())
}

func (s *Server) leave(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gateway(st.gateway)
	delete(g.streams, st)
	s.count(st.gateway, g)
	s.dropUnused(st.gateway, g)
}

// ProxyStatus describes one connected proxy.
type ProxyStatus struct {
	Node      string    `json:"node"`
	Gateway   string    `json:"gateway"`
	Profile   string    `json:"profile,omitempty"`
	Version   string    `json:"version,omitempty"`
	Connected time.Time `json:"connected"`
	InSync    bool      `json:"inSync"`
	// Waiting is set while the gateway has no configuration.
	Waiting bool         `json:"waiting,omitempty"`
	Types   []TypeStatus `json:"types"`
}

type TypeStatus struct {
	Type string `json:"type"`
	publish.Summary
}

// Proxies describes every connected proxy, sorted by gateway and node.
func (s *Server) Proxies() []ProxyStatus {
	streams := s.streams()
	out := make([]ProxyStatus, 0, len(streams))
	for _, st := range streams {
		if p, ok := st.status(); ok {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b ProxyStatus) int {
		return cmp.Or(cmp.Compare(a.Gateway, b.Gateway), cmp.Compare(a.Node, b.Node), a.Connected.Compare(b.Connected))
	})
	return out
}

func (st *stream) status() (ProxyStatus, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closed {
		return ProxyStatus{}, false
	}
	p := ProxyStatus{Node: st.node.GetId(), Gateway: st.gateway, Profile: st.profile, Connected: st.since, InSync: true,
		Waiting: st.waiting()}
	if v := st.node.GetUserAgentBuildVersion().GetVersion(); v != nil {
		p.Version = version(v.GetMajorNumber(), v.GetMinorNumber(), v.GetPatch())
	}
	started := st.machine.Started()
	for i, sum := range st.machine.Summaries() {
		p.Types = append(p.Types, TypeStatus{Type: resource.Type(i).String(), Summary: sum})
		p.InSync = p.InSync && started && sum.InSync()
	}
	return p, true
}
