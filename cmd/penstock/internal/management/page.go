package management

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"

	"github.com/penstock-project/penstock/cmd/penstock/internal/clusterset"
	"github.com/penstock-project/penstock/cmd/penstock/internal/debug"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/hub"
)

// Status is what penstock hub shows of its members.
type Status struct {
	// ClusterSet is the name of the one in use; "" before there is one.
	ClusterSet string `json:"clusterSet"`
	// Leading: this process writes.
	Leading bool         `json:"leading"`
	Problem *mistake     `json:"problem,omitempty"`
	Members []hub.Status `json:"members"`
	// Peers are the members with a peer. Penstocks exchange exports with them, and the hub ignores
	// them.
	Peers []string `json:"peers,omitempty"`
	// Problems of members, by name, and of what stands in files, by object and field.
	Problems map[string]*mistake `json:"problems,omitempty"`
}

// note notes what is wrong with a member, "" for the ClusterSet; nil: nothing is. What is new is
// logged.
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

// status is what the hub shows.
func (h *Hub) status() Status {
	h.mu.Lock()
	is := Status{ClusterSet: h.set, Leading: h.leading, Peers: h.peers}
	is.Members, is.Problems = []hub.Status{}, map[string]*mistake{}
	for name, m := range h.mistakes {
		if name == "" {
			is.Problem = m
		} else {
			is.Problems[name] = m
		}
	}
	maps.Copy(is.Problems, h.findings)
	out := h.out
	h.mu.Unlock()
	if out != nil && is.Leading {
		is.Members = out.Status()
	}
	return is
}

// Register adds the hub's pages to mux: its members, and the page by which other commands find that
// the process is a hub.
func (h *Hub) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET /members", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, h.status()) })
	mux.HandleFunc("GET /clusters", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, h.clusterSet()) })
	debug.RegisterStore(mux, h.store)
}

// clusterSet is the page /clusters of a hub, which exchanges no exports itself.
func (h *Hub) clusterSet() clusterset.Status {
	is := clusterset.Status{Hub: true, Members: []clusterset.MemberStatus{}}
	if set := clusterset.Selected(h.store.View()); set != nil {
		is.Cluster = set.Spec.Cluster
	}
	return is
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("content-type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(value) // fails only if the client has disconnected
}

// equalMember compares what decisions about exports depend on.
func equalMember(a, b *v1alpha1.ClusterSetMember) bool { return reflect.DeepEqual(a, b) }
