package hub

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/multicluster/hub/decide"
	"github.com/penstock-project/penstock/multicluster/set"
)

// Status is the state of a hub's members.
type Status struct {
	// ClusterSet is the name of the ClusterSet in use; "": none yet.
	ClusterSet string          `json:"clusterSet"`
	Leading    bool            `json:"leading"`
	Problem    *mistake        `json:"problem,omitempty"`
	Members    []decide.Status `json:"members"`
	// Peers are the members with a peer, which the hub ignores.
	Peers []string `json:"peers,omitempty"`
	// Problems has problems by member, or by object and field in a file.
	Problems map[string]*mistake `json:"problems,omitempty"`
}

// note sets a member's problem, and logs it if it is new. m nil: no problem. The member "" stands
// for the ClusterSet.
func (h *Hub) note(member string, m *mistake) {
	h.mu.Lock()
	old := h.mistakes[member]
	if m == nil {
		delete(h.mistakes, member)
	} else {
		h.mistakes[member] = m
	}
	h.mu.Unlock()
	switch {
	case m != nil && !reflect.DeepEqual(old, m):
		h.log.Error("a member of the cluster set cannot be used", "object", "ClusterSet "+h.name(), "field", m.Field,
			"problem", m.Problem, "fix", m.Fix)
	case m == nil && old != nil:
		h.log.Info("a problem of the cluster set is resolved", "field", old.Field)
	}
}

func (h *Hub) name() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.set
}

func (h *Hub) status() Status {
	h.mu.Lock()
	status := Status{ClusterSet: h.set, Leading: h.leading, Peers: h.peers}
	status.Members, status.Problems = []decide.Status{}, map[string]*mistake{}
	for name, m := range h.mistakes {
		if name == "" {
			status.Problem = m
		} else {
			status.Problems[name] = m
		}
	}
	maps.Copy(status.Problems, h.findings)
	out := h.out
	h.mu.Unlock()
	if out != nil && status.Leading {
		status.Members = out.Status()
	}
	return status
}

// Register adds two pages to mux: the members, and a page by which commands recognize a hub.
func (h *Hub) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET /members", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, h.status()) })
	mux.HandleFunc("GET /clusters", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, h.clusterSet()) })
}

// Store returns the objects of the management cluster.
func (h *Hub) Store() *store.Store { return h.store }

func (h *Hub) clusterSet() set.Status {
	status := set.Status{Hub: true, Members: []set.MemberStatus{}}
	if clusterSet := set.Selected(h.store.View()); clusterSet != nil {
		status.Cluster = clusterSet.Spec.Cluster
	}
	return status
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("content-type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(value) // fails only when the client disconnects
}
