package kubetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"

	"github.com/penstock-project/penstock/discovery/store"
)

// Object is a Kubernetes object, decoded from JSON.
type Object = map[string]any

// Server is the API server. It is safe for concurrent use.
type Server struct {
	http *httptest.Server

	mu      sync.Mutex
	version int
	objects map[string]map[string]Object // by resource path without namespace, then by id
	watches map[*watch]struct{}
	fail    func(method, path string) int
	rejects func(resource string, obj Object) string
	asked   []string // received requests, "METHOD path?query", in order
}

type watch struct {
	resource, namespace, name string
	events                    chan []byte
	cut                       chan struct{}
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	s := &Server{objects: map[string]map[string]Object{}, watches: map[*watch]struct{}{}}
	s.http = httptest.NewServer(s)
	t.Cleanup(func() {
		s.Cut()
		s.http.Close()
	})
	return s
}

// Config returns the client configuration of the server.
func (s *Server) Config() *rest.Config { return &rest.Config{Host: s.http.URL} }

// Fail sets a function that returns an HTTP status with which the server rejects a request; 0: the
// request succeeds. A nil f rejects no request.
func (s *Server) Fail(f func(method, path string) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

// Reject sets a function that validates writes. If f returns a problem with the resulting object,
// the server responds with status 422. resource is the plural name of the object's kind.
func (s *Server) Reject(f func(resource string, obj Object) (problem string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejects = f
}

// Cut ends all watches, like a broken connection.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		close(w.cut)
		delete(s.watches, w)
	}
}

// Asked returns the received requests whose "METHOD path?query" contains text.
func (s *Server) Asked(text string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.asked {
		if strings.Contains(r, text) {
			out = append(out, r)
		}
	}
	return out
}

// Put creates or replaces an object, as a user does: a changed spec gets a new generation.
func (s *Server) Put(resource string, obj Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := resourcePath(obj, resource)
	old := s.objects[path][id(obj)]
	obj = clone(obj)
	meta := obj["metadata"].(Object)
	meta["uid"], meta["generation"] = string(uuid.NewUUID()), int64(1)
	kind := "ADDED"
	if old != nil {
		before := old["metadata"].(Object)
		kind, meta["uid"], meta["generation"] = "MODIFIED", before["uid"], before["generation"]
		if !same(old["spec"], obj["spec"]) {
			meta["generation"] = number(before["generation"]) + 1
		}
		if obj["status"] == nil && old["status"] != nil {
			obj["status"] = old["status"]
		}
	}
	s.store(path, kind, obj)
}

// SetUID replaces the UID of an object.
func (s *Server) SetUID(group, resource, id, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, objects := range s.objects {
		if parts := strings.Split(path, "/"); parts[0] == group && parts[2] == resource && objects[id] != nil {
			now := clone(objects[id])
			now["metadata"].(Object)["uid"] = uid
			s.store(path, "MODIFIED", now)
		}
	}
}

// Get returns an object, or nil.
func (s *Server) Get(group, resource, id string) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, objects := range s.objects {
		if parts := strings.Split(path, "/"); parts[0] == group && parts[2] == resource && objects[id] != nil {
			return clone(objects[id])
		}
	}
	return nil
}

// Delete removes an object. If it has finalizers, Delete only sets its deletionTimestamp.
func (s *Server) Delete(resource string, obj Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := resourcePath(obj, resource)
	if old := s.objects[path][id(obj)]; old != nil {
		if held(old) {
			now := clone(old)
			now["metadata"].(Object)["deletionTimestamp"] = "2020-01-01T00:00:00Z"
			s.store(path, "MODIFIED", now)
			return
		}
		s.remove(path, old)
	}
}

func held(obj Object) bool {
	list, _ := obj["metadata"].(Object)["finalizers"].([]any)
	return len(list) > 0
}

func (s *Server) remove(path string, old Object) {
	delete(s.objects[path], id(old))
	s.version++
	old["metadata"].(Object)["resourceVersion"] = strconv.Itoa(s.version)
	s.publish(path, "DELETED", old)
}

// The caller holds mu.
func (s *Server) store(path, event string, obj Object) {
	s.version++
	obj["metadata"].(Object)["resourceVersion"] = strconv.Itoa(s.version)
	if s.objects[path] == nil {
		s.objects[path] = map[string]Object{}
	}
	s.objects[path][id(obj)] = obj
	s.publish(path, event, obj)
}

func (s *Server) publish(path, event string, obj Object) {
	for w := range s.watches {
		if w.resource == path && w.matches(obj) {
			w.events <- line(event, obj)
		}
	}
}

func (w *watch) matches(obj Object) bool {
	meta := obj["metadata"].(Object)
	return (w.namespace == "" || meta["namespace"] == w.namespace) && (w.name == "" || meta["name"] == w.name)
}

func line(event string, obj Object) []byte {
	raw, _ := json.Marshal(Object{"type": event, "object": obj}) // cannot fail: obj was JSON
	return append(raw, '\n')
}

type request struct{ resource, namespace, name, sub string }

func parse(path string) (r request) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "openapi" {
		return r
	}
	group, rest := "", parts[1:]
	if parts[0] == "apis" {
		group, rest = parts[1], parts[2:]
	}
	version := rest[0]
	rest = rest[1:]
	if rest[0] == "namespaces" && len(rest) > 2 {
		r.namespace, rest = rest[1], rest[2:]
	}
	r.resource = group + "/" + version + "/" + rest[0]
	if len(rest) > 1 {
		r.name = rest[1]
	}
	if len(rest) > 2 {
		r.sub = rest[2]
	}
	return r
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, hr.Method+" "+hr.URL.Path+"?"+hr.URL.RawQuery)
	code := 0
	if s.fail != nil {
		code = s.fail(hr.Method, hr.URL.Path)
	}
	s.mu.Unlock()
	if code == 0 && strings.HasPrefix(hr.URL.Path, "/openapi/") {
		answer(w, http.StatusOK, Object{"paths": Object{}})
		return
	}
	r, query := parse(hr.URL.Path), hr.URL.Query()
	name := strings.TrimPrefix(query.Get("fieldSelector"), "metadata.name=")
	switch {
	case code != 0:
		fail(w, code, "broken by the test")
	case hr.Method == http.MethodGet && query.Get("watch") != "":
		s.watch(w, hr,
			&watch{resource: r.resource, namespace: r.namespace, name: name, events: make(chan []byte, 1<<16),
				cut: make(chan struct{})}, query.Get("sendInitialEvents") == "true")
	case hr.Method == http.MethodGet && r.name == "":
		s.list(w, &watch{resource: r.resource, namespace: r.namespace, name: name})
	default:
		s.one(w, hr, r)
	}
}

func fail(w http.ResponseWriter, code int, message string) {
	reasons := map[int]string{http.StatusNotFound: "NotFound", http.StatusConflict: "Conflict",
		http.StatusForbidden: "Forbidden", http.StatusUnprocessableEntity: "Invalid"}
	answer(w, code,
		Object{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reasons[code],
			"message": message})
}

func answer(w http.ResponseWriter, code int, obj Object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(obj) // fails only if the client is gone
}

// matching returns the objects that a watch selects, sorted by id. The caller holds mu.
func (s *Server) matching(w *watch) (out []any) {
	for _, id := range slices.Sorted(maps.Keys(s.objects[w.resource])) {
		if obj := s.objects[w.resource][id]; w.matches(obj) {
			out = append(out, obj)
		}
	}
	return out
}

func kindOf(resource string) string {
	for _, t := range store.Tables() {
		if strings.EqualFold(t.Kind()+"s", resource) {
			return t.Kind()
		}
	}
	return ""
}

func (s *Server) list(w http.ResponseWriter, selection *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := s.matching(selection)
	parts := strings.Split(selection.resource, "/")
	kind := kindOf(parts[2]) + "List"
	if len(items) > 0 {
		kind = items[0].(Object)["kind"].(string) + "List"
	}
	answer(w, http.StatusOK,
		Object{"apiVersion": strings.TrimPrefix(parts[0]+"/"+parts[1], "/"), "kind": kind, "items": items,
			"metadata": Object{"resourceVersion": strconv.Itoa(s.version)}})
}

// watch serves a watch. The server keeps no history: a request for events from an older resource
// version receives 410 Gone.
func (s *Server) watch(w http.ResponseWriter, hr *http.Request, opened *watch, initial bool) {
	w.Header().Set("Content-Type", "application/json")
	flush := w.(http.Flusher)
	s.mu.Lock()
	if from := hr.URL.Query().Get("resourceVersion"); !initial && from != "" && from != strconv.Itoa(s.version) {
		s.mu.Unlock()
		fail(w, http.StatusGone, "too old a version")
		return
	}
	if initial {
		for _, obj := range s.matching(opened) {
			opened.events <- line("ADDED", obj.(Object))
		}
		parts := strings.Split(opened.resource, "/")
		opened.events <- line("BOOKMARK", Object{
			"apiVersion": strings.TrimPrefix(parts[0]+"/"+parts[1], "/"), "kind": kinds[parts[2]],
			"metadata": Object{"resourceVersion": strconv.Itoa(s.version),
				"annotations": Object{"k8s.io/initial-events-end": "true"}},
		})
	}
	s.watches[opened] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watches, opened)
		s.mu.Unlock()
	}()
	w.WriteHeader(http.StatusOK)
	flush.Flush()
	for {
		select {
		case e := <-opened.events:
			if _, err := w.Write(e); err != nil {
				return
			}
			flush.Flush()
		case <-opened.cut:
			return
		case <-hr.Context().Done():
			return
		}
	}
}

var kinds = map[string]string{
	"customresourcedefinitions": "CustomResourceDefinition", "gatewayclasses": "GatewayClass", "gateways": "Gateway",
	"httproutes": "HTTPRoute",
	"grpcroutes": "GRPCRoute", "tlsroutes": "TLSRoute", "tcproutes": "TCPRoute", "udproutes": "UDPRoute",
	"listenersets": "ListenerSet", "referencegrants": "ReferenceGrant",
	"backendtlspolicies": "BackendTLSPolicy", "namespaces": "Namespace", "services": "Service",
	"endpointslices": "EndpointSlice", "pods": "Pod",
	"secrets": "Secret", "configmaps": "ConfigMap", "inferencepools": "InferencePool",
	"inferencemodels":        "InferenceModel",
	"inferencemodelrewrites": "InferenceModelRewrite", "inferenceobjectives": "InferenceObjective",
	"inferencepoolimports": "InferencePoolImport", "modelservers": "ModelServers",
	"modeldeployments": "ModelDeployment", "modelregistries": "ModelRegistry", "poolpolicies": "PoolPolicy",
	"apikeys": "APIKey", "accesspolicies": "AccessPolicy",
	"envoyfleets": "EnvoyFleet",
	"clustersets": "ClusterSet", "poolexports": "PoolExport", "clusterproperties": "ClusterProperty",
}

func (s *Server) one(w http.ResponseWriter, hr *http.Request, r request) {
	var body Object
	if hr.Method != http.MethodGet {
		if err := json.NewDecoder(hr.Body).Decode(&body); err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.TrimPrefix(r.namespace+"/"+r.name, "/")
	old := s.objects[r.resource][key]
	if s.rejects != nil && hr.Method == http.MethodPatch && r.sub == "status" && old != nil {
		now := clone(old)
		now["status"] = merge(now["status"], body["status"])
		if problem := s.rejects(strings.Split(r.resource, "/")[2], now); problem != "" {
			fail(w, http.StatusUnprocessableEntity, problem)
			return
		}
	}
	if hr.URL.Query().Get("dryRun") == "All" && old != nil {
		answer(w, http.StatusOK, old)
		return
	}
	switch {
	case hr.Method == http.MethodPost:
		key = id(body)
		if s.objects[r.resource][key] != nil {
			fail(w, http.StatusConflict, "it exists")
			return
		}
		s.store(r.resource, "ADDED", body)
	case old == nil && r.sub == "" && hr.Header.Get("content-type") == string(types.ApplyYAMLPatchType):
		s.store(r.resource, "ADDED", body)
	case old == nil:
		fail(w, http.StatusNotFound, "there is no "+key)
		return
	case hr.Method == http.MethodGet:
	case !unchanged(old, body):
		fail(w, http.StatusConflict, "another version")
		return
	case hr.Method == http.MethodPut:
		s.store(r.resource, "MODIFIED", body)
	case hr.Method == http.MethodPatch && r.sub == "status":
		now := clone(old)
		now["status"] = merge(now["status"], body["status"])
		s.store(r.resource, "MODIFIED", now)
	case hr.Method == http.MethodPatch && r.sub == "":
		now := merge(clone(old), body).(Object)
		s.store(r.resource, "MODIFIED", now)
		if now["metadata"].(Object)["deletionTimestamp"] != nil && !held(now) {
			s.remove(r.resource, now)
			answer(w, http.StatusOK, now)
			return
		}
	default:
		fail(w, http.StatusMethodNotAllowed, hr.Method)
		return
	}
	answer(w, http.StatusOK, s.objects[r.resource][key])
}

func unchanged(old, body Object) bool {
	meta, _ := body["metadata"].(Object)
	v, ok := meta["resourceVersion"].(string)
	return !ok || v == "" || v == old["metadata"].(Object)["resourceVersion"]
}

// merge applies a JSON merge patch (RFC 7386).
func merge(old, patch any) any {
	p, ok := patch.(Object)
	if !ok {
		return patch
	}
	out := Object{}
	if o, ok := old.(Object); ok {
		out = maps.Clone(o)
	}
	for k, v := range p {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = merge(out[k], v)
		}
	}
	return out
}

func resourcePath(obj Object, resource string) string {
	group, version, ok := strings.Cut(obj["apiVersion"].(string), "/")
	if !ok {
		group, version = "", group
	}
	return group + "/" + version + "/" + resource
}

func id(obj Object) string {
	meta := obj["metadata"].(Object)
	if ns, _ := meta["namespace"].(string); ns != "" {
		return fmt.Sprintf("%s/%s", ns, meta["name"])
	}
	return fmt.Sprint(meta["name"])
}

func clone(obj Object) (out Object) {
	raw, _ := json.Marshal(obj) // cannot fail: obj was JSON
	_ = json.Unmarshal(raw, &out)
	return out
}

func same(a, b any) bool {
	x, _ := json.Marshal(a) // cannot fail: a and b were JSON
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

func number(v any) int64 {
	f, _ := v.(float64)
	n, _ := v.(int64)
	return int64(f) + n
}
