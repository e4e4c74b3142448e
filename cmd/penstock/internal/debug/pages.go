package debug

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/server"
)

// Config configures the pages.
type Config struct {
	Store *store.Store
	Cache *cache.Cache
	XDS   *server.Server
	// Rows explains rows of the translation (translator.ExplainRow). It is safe while changes are
	// translated.
	Rows func(key string) []graph.Explanation
}

// Register adds the pages to mux.
func Register(mux *http.ServeMux, c Config) {
	RegisterStore(mux, c.Store)
	mux.HandleFunc("GET /debug/graph", c.graph)
	mux.HandleFunc("GET /debug/xds/dump", c.dump)
	mux.HandleFunc("GET /debug/xds/diff", c.diff)
}

// RegisterStore adds only the page of a store.
func RegisterStore(mux *http.ServeMux, s *store.Store) {
	mux.HandleFunc("GET /debug/store/{kind}", Config{Store: s}.store)
}

func table(name string) (store.Kind, bool) {
	for _, t := range store.Tables() {
		kind := t.Kind()
		if strings.EqualFold(name, kind) || strings.EqualFold(name, kind+"s") || strings.EqualFold(name, kind+"es") ||
			strings.HasSuffix(kind, "y") && strings.EqualFold(name, strings.TrimSuffix(kind, "y")+"ies") {
			return t, true
		}
	}
	return nil, false
}

func kinds() string {
	var names []string
	for _, t := range store.Tables() {
		names = append(names, t.Kind())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// watchWrite bounds one write to a watching client. Otherwise revisions would pile up for a client
// that does not read.
const watchWrite = 10 * time.Second

// Objects is the answer of /debug/store/KIND.
type Objects struct {
	Kind     string            `json:"kind"`
	Revision uint64            `json:"revision"` // revision of the store
	Objects  []json.RawMessage `json:"objects"`  // each as JSON by store.Show
}

// Event is one line of /debug/store/KIND?watch: an object that changed.
type Event struct {
	Revision uint64 `json:"revision"`
	Type     string `json:"type"` // "put" or "delete"
	Name     string `json:"name"` // "namespace/name"
}

func (c Config) store(w http.ResponseWriter, r *http.Request) {
	t, ok := table(r.PathValue("kind"))
	if !ok {
		http.Error(w, fmt.Sprintf("no kind %q: choose one of %s", r.PathValue("kind"), kinds()), http.StatusNotFound)
		return
	}
	if r.URL.Query().Has("watch") {
		c.watch(w, r, t.Kind())
		return
	}
	view := c.Store.View()
	out := Objects{Kind: t.Kind(), Revision: view.Revision(), Objects: []json.RawMessage{}}
	for _, change := range store.Everything(view) {
		if change.Table != t.Kind() || !strings.HasPrefix(change.ID, r.URL.Query().Get("name")) {
			continue
		}
		if obj, ok := t.Object(view, change.ID); ok {
			text, err := store.Show(obj)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			out.Objects = append(out.Objects, text)
		}
	}
	WriteJSON(w, out)
}

func (c Config) watch(w http.ResponseWriter, r *http.Request, kind string) {
	w.Header().Set("content-type", "application/x-ndjson")
	flusher := http.NewResponseController(w)
	encoder := json.NewEncoder(w)
	subscription := c.Store.Subscribe()
	defer subscription.Close()
	for {
		revisions, _, err := subscription.Next(r.Context())
		if err != nil {
			return
		}
		_ = flusher.SetWriteDeadline(time.Now().Add(watchWrite)) // fails only in a test
		for _, rev := range revisions {
			for _, change := range rev.Changes {
				if change.Table != kind {
					continue
				}
				event := Event{Revision: rev.N, Type: "put", Name: change.ID}
				if change.Deleted {
					event.Type = "delete"
				}
				if encoder.Encode(event) != nil {
					return
				}
			}
		}
		if flusher.Flush() != nil {
			return
		}
	}
}

const mostRows = 200

func (c Config) graph(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("key")
	rows := c.Rows(key)
	if key == "" || len(rows) == 0 {
		http.Error(w, fmt.Sprintf("no row has a key that contains %q: write the name of an object (default/chat), a "+
			"cluster (pool/default/chat) or a host", key), http.StatusNotFound)
		return
	}
	if len(rows) > mostRows {
		http.Error(w, fmt.Sprintf("%d rows have a key that contains %q, at most %d are shown: write more of it",
			len(rows), key, mostRows), http.StatusBadRequest)
		return
	}
	WriteJSON(w, rows)
}

func (c Config) dump(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("gateway")
	resources, ok := c.Cache.Resources(name)
	if !ok {
		var known []string
		for _, g := range c.Cache.Gateways() {
			known = append(known, g.Name)
		}
		http.Error(w, fmt.Sprintf("no Gateway %q is served here: choose one of %s", name, strings.Join(known, ", ")),
			http.StatusNotFound)
		return
	}
	dump, err := configDump(resources)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	WriteJSON(w, dump)
}

func (c Config) diff(w http.ResponseWriter, r *http.Request) {
	node := r.URL.Query().Get("node")
	list := c.XDS.Differences(node)
	if len(list) == 0 {
		var known []string
		for _, p := range c.XDS.Proxies() {
			known = append(known, p.Node)
		}
		http.Error(w, fmt.Sprintf("no proxy with node id %q is connected to this process: choose one of %s", node,
			strings.Join(known, ", ")), http.StatusNotFound)
		return
	}
	WriteJSON(w, list)
}

// WriteJSON answers with a value, indented for people.
func WriteJSON(w http.ResponseWriter, v any) {
	w.Header().Set("content-type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // fails only when the client disconnects
}
