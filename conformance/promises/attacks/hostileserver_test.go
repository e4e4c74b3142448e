package attacks

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

const hostileObjects = 1_000_000

// generated are the objects of a hostile API server by resource. text follows the metadata in each
// object's JSON.
var generated = map[string]struct{ version, kind, text string }{
	"namespaces": {"v1", "Namespace", `"status":{"phase":"Active"}`},
	"services": {"v1", "Service", `"spec":{"type":"LoadBalancer","clusterIP":"10.0.0.1",
		"ports":[{"name":"epp","port":9002},{"name":"health","port":9003}]},
		"status":{"loadBalancer":{"ingress":[{"ip":"10.128.0.5"}]}}`},
	"pods": {
		"v1", "Pod", `"spec":{"containers":[{"name":"server"}]},"status":{"phase":"Running","podIP":"10.128.1.5"}`,
	},
	"endpointslices": {"discovery.k8s.io/v1", "EndpointSlice", `"addressType":"IPv4","ports":[{"port":9002}],
		"endpoints":[{"addresses":["10.128.1.5"],"conditions":{"ready":true}},
		{"addresses":["10.128.1.6"],"conditions":{"ready":true}}]`},
	"inferencepools": {"inference.networking.k8s.io/v1", "InferencePool", `"spec":{
		"selector":{"matchLabels":{"app":"chat"}},"targetPorts":[{"number":8000}],"endpointPickerRef":{"name":"chat-epp","port":{"number":9002}}}`},
	"inferencepoolimports": {"inference.networking.x-k8s.io/v1alpha1", "InferencePoolImport",
		`"status":{"controllers":[{"name":"other.example/controller"}],
		"clusters":[{"name":"elsewhere","routingMode":"ParentMode"}]}`},
	"gateways": {"gateway.networking.k8s.io/v1", "Gateway", `"spec":{"gatewayClassName":"x",
		"listeners":[{"name":"http","port":80,"protocol":"HTTP"}]}`},
	"nodes": {"v1", "Node", `"status":{"addresses":[{"type":"InternalIP","address":"10.128.0.7"}]}`},
	"poolexports": {"penstock.dev/v1alpha1", "PoolExport",
		`"spec":{"pool":"chat"},
		"status":{"entry":{"name":"here","routingMode":"ParentMode","parents":[{"service":[{"addresses":["10.128.0.9"]}]}]}}`},
}

// hostileServer is the API server of a hub's member. Its objects are too many, and the fields
// select how it delivers them.
type hostileServer struct {
	whole   bool // lists ignore their limit
	watched bool // lists are empty, and watches deliver all objects
}

func writeObject(w io.Writer, resource string, i int) {
	g := generated[resource]
	_, _ = fmt.Fprintf(w,
		`{"apiVersion":%[1]q,"kind":%[2]q,"metadata":{"name":"o-%[3]d","namespace":"n-%[4]d","uid":"u-%[3]d",
		"resourceVersion":"7","labels":{"app":"chat-%[3]d","kubernetes.io/service-name":"o-%[3]d"},
		"annotations":{"inference.networking.x-k8s.io/export":"ClusterSet"}},%[5]s}`, g.version, g.kind, i, i%1000, g.text)
}

func (h *hostileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	resource, query := parts[len(parts)-1], r.URL.Query()
	g, ok := generated[resource]
	w.Header().Set("content-type", "application/json")
	switch {
	case r.URL.Path == "/openapi/v3":
		_, _ = io.WriteString(w, `{"paths":{}}`)
	case !ok || r.Method != http.MethodGet:
		http.Error(w, "{}", http.StatusInternalServerError)
	case query.Get("watch") != "":
		h.watch(w, r, resource)
	case query.Get("fieldSelector") != "":
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"NamespaceList","metadata":{"resourceVersion":"7"},
			"items":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system","uid":"`+r.Host+`"}}]}`)
	default:
		limit, _ := strconv.Atoi(query.Get("limit"))
		from, _ := strconv.Atoi(query.Get("continue"))
		end := min(from+limit, hostileObjects)
		if limit == 0 || h.whole {
			end = hostileObjects
		}
		if h.watched {
			end = from
		}
		_, _ = fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"7"`, g.version, g.kind+"List")
		if end < hostileObjects && end > from {
			_, _ = fmt.Fprintf(w, `,"continue":"%d","remainingItemCount":%d`, end, hostileObjects-end)
		}
		_, _ = io.WriteString(w, `},"items":[`)
		for i := from; i < end && r.Context().Err() == nil; i++ {
			if i > from {
				_, _ = io.WriteString(w, ",")
			}
			writeObject(w, resource, i)
		}
		_, _ = io.WriteString(w, "]}")
	}
}

func (h *hostileServer) watch(w http.ResponseWriter, r *http.Request, resource string) {
	for i := 0; h.watched && i < hostileObjects && r.Context().Err() == nil; i++ {
		_, _ = io.WriteString(w, `{"type":"ADDED","object":`)
		writeObject(w, resource, i)
		_, _ = io.WriteString(w, "}\n")
	}
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}
