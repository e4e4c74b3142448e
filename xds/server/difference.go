package server

import (
	"time"

	"github.com/penstock-project/penstock/xds/publish"
)

// Difference is a publish.Difference in JSON.
type Difference struct {
	Type     string    `json:"type"`
	Name     string    `json:"name"`
	Served   string    `json:"served,omitempty"`
	Accepted string    `json:"accepted,omitempty"`
	State    string    `json:"state"`
	Detail   string    `json:"detail,omitempty"`
	Since    time.Time `json:"since,omitzero"`
}

type ProxyDifferences struct {
	Node        string       `json:"node"`
	Gateway     string       `json:"gateway"`
	Differences []Difference `json:"differences"`
}

// Differences lists the differences of each connected proxy with a node ID. A reconnecting proxy
// may be listed twice.
func (s *Server) Differences(node string) []ProxyDifferences {
	var out []ProxyDifferences
	for _, st := range s.streams() {
		if st.node.GetId() != node {
			continue
		}
		p := ProxyDifferences{Node: node, Gateway: st.gateway, Differences: []Difference{}}
		for _, d := range st.differences() {
			p.Differences = append(p.Differences, Difference{
				Type: d.Type.String(), Name: d.Name, Served: d.Served, Accepted: d.Accepted, State: d.State,
				Detail: d.Detail, Since: d.Since,
			})
		}
		out = append(out, p)
	}
	return out
}

func (st *stream) differences() []publish.Difference {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closed {
		return nil
	}
	return st.machine.Differences()
}
