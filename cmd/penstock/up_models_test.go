package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// listModels asks a gateway for its list of models.
func listModels(t *testing.T, method, url string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url+"/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := do(client(), req)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// modelNames are the IDs in a list of models, in their order, each adapter with its parent.
func modelNames(t *testing.T, text string) (names []string) {
	t.Helper()
	var list struct {
		Object string
		Data   []struct {
			ID, Object, Parent string
			OwnedBy            string `json:"owned_by"`
			Created            int64
		}
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil || list.Object != "list" {
		t.Fatalf("%v: %s", err, text)
	}
	for _, m := range list.Data {
		if m.OwnedBy == "" && m.Created == 0 { // no server has it
			names = append(names, m.ID+", replaced")
			continue
		}
		if m.Object != "model" || m.OwnedBy != "penstock" || m.Created == 0 {
			t.Errorf("model %+v", m)
		}
		if m.Parent != "" {
			m.ID += " of " + m.Parent
		}
		names = append(names, m.ID)
	}
	return names
}

func TestModels_ListHasThoseOfAllPoolsOfTheRule(t *testing.T) {
	t.Parallel()
	remote := modelServer(t, sim.Config{Name: "east-1", Model: "qwen"})
	_, remotePicker := exporter(t, remote)
	_, remotePort, _ := net.SplitHostPort(remote)
	port := freePort(t)
	files := chatFiles(port, modelServer(t, sim.Config{Name: "a", LoRAs: []string{"sql", "legal"}}), modelServer(t, sim.Config{Name: "b"}))
	files["other.yaml"] = poolYAML("other") + "---\n" + serversYAML("other", modelServer(t, sim.Config{Name: "c", Model: "mistral"}))
	files["import.yaml"] = fmt.Sprintf(`apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: far}
status:
  clusters:
  - name: declared
    routingMode: EndpointMode
    targetPorts: [{number: %s}]
    endpoints: [{address: 127.0.0.1}]
    endpointPicker: {service: [{addresses: [127.0.0.1], ports: [{number: %d, appProtocol: kubernetes.io/h2c}]}]}
`, remotePort, remotePicker)
	far := "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}"
	files["model.yaml"] = modelYAML("fast", "other", "fast", "{name: mistral}") + modelYAML("own", "other", "unknown", "")
	files["two.yaml"] = routeYAML("two", "/two", toPool("chat")+", "+toPool("other"))
	files["far.yaml"] = routeYAML("far", "/far", far)
	files["all.yaml"] = routeYAML("all", "/all", toPool("chat")+", "+toPool("other")+", "+far)
	files["silent.yaml"] = routeYAML("silent", "/silent", toPool("silent")) + "---\n" + poolYAML("silent") + "---\n" + serversYAML("silent", silentServer(t))
	files["spill.yaml"] = routeYAML("spill", "/spill", toPool("spill")) + "---\n" + poolYAML("spill") + "---\n" + serversYAML("spill", modelServer(t, sim.Config{Name: "d", Model: "phi"}), modelServer(t, sim.Config{Name: "e", Model: "gemma"})) + `---
apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: spill}
spec:
  targetRef: {kind: InferencePool, name: spill}
  spill: [{name: chat}]
  picker: {full: {inFlight: 8}}
`
	up(t, files)
	chat := []string{"legal of llama", "llama", "sql of llama"}
	for path, want := range map[string][]string{
		"":       chat,
		"/two":   {"fast, replaced", "legal of llama", "llama", "mistral", "sql of llama"},
		"/far":   {"qwen"},
		"/all":   {"fast, replaced", "legal of llama", "llama", "mistral", "qwen", "sql of llama"},
		"/spill": {"gemma", "phi"},
	} {
		eventually(t, path+" is served", func() error {
			if got := listModels(t, http.MethodGet, local(port)+path); got.status != http.StatusOK {
				return fmt.Errorf("%d: %s", got.status, got.body)
			}
			return nil
		})
		for range 6 { // each of the rule's shares
			got := listModels(t, http.MethodGet, local(port)+path)
			if names := modelNames(t, got.body); !slices.Equal(names, want) {
				t.Errorf("%s lists %q, want %q", path, names, want)
			}
			if got.header.Get("content-type") != "application/json" || got.header.Get("x-served-by") != "" {
				t.Errorf("%s: %v", path, got.header)
			}
		}
	}
	if got := listModels(t, http.MethodHead, local(port)+"/two"); got.status != http.StatusOK || got.body != "" || got.header.Get("content-type") != "application/json" {
		t.Errorf("HEAD: %d %v %q", got.status, got.header, got.body)
	}
	if got := listModels(t, http.MethodGet, local(port)+"/silent"); got.status != http.StatusNotFound || got.body != "no list here\n" {
		t.Errorf("a pool whose servers have no list: want its server's own answer, got %d: %q", got.status, got.body)
	}
}

// throughGateways is an import of clusters by gateways at some ports of this machine.
func throughGateways(name string, ports ...int) string {
	text := fmt.Sprintf("---\napiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: %s}\nstatus:\n  clusters:\n", name)
	for i, port := range ports {
		text += fmt.Sprintf("  - {name: \"c%d, 50%% or less?\", routingMode: ParentMode, parents: [{service: {addresses: [127.0.0.1], ports: [{number: %d}]}}]}\n", i, port)
	}
	return text
}

// eventuallyLists waits until a gateway lists some models, and fails if any of its next answers is another one.
func eventuallyLists(t *testing.T, url string, want ...string) {
	t.Helper()
	list := func() error {
		got := listModels(t, http.MethodGet, url)
		if got.status != http.StatusOK {
			return fmt.Errorf("%d: %s", got.status, got.body)
		}
		if names := modelNames(t, got.body); !slices.Equal(names, want) {
			return fmt.Errorf("%s lists %q, want %q", url, names, want)
		}
		return nil
	}
	eventually(t, url+" lists models", list)
	for range 6 { // each of the rule's shares
		if err := list(); err != nil {
			t.Error(err)
		}
	}
}

// Clusters that are reached through their gateways are part of a rule's list, be they alone in it or not, and two whose routes lead to
// each other list the models of both.
func TestModels_ListHasThoseBehindOtherClustersGateways(t *testing.T) {
	t.Parallel()
	west, east, here := freePort(t), freePort(t), freePort(t)
	far := func(name string) string {
		return "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: " + name + "}"
	}
	export := func(port int, model, path string) {
		files := chatFiles(port, modelServer(t, sim.Config{Name: model, Model: model}))
		files["back.yaml"] = routeYAML("back", path, toPool("chat")+", "+far("back")) + throughGateways("back", here)
		up(t, files)
	}
	export(west, "qwen", "/ring")
	export(east, "phi", "/other")
	files := chatFiles(here, modelServer(t, sim.Config{Name: "here-1"}))
	files["west.yaml"] = routeYAML("west", "/west", far("west")) + throughGateways("west", west)
	files["both.yaml"] = routeYAML("both", "/both", far("both")) + throughGateways("both", west, east)
	files["all.yaml"] = routeYAML("all", "/all", toPool("chat")+", "+far("both"))
	files["ring.yaml"] = strings.Replace(routeYAML("ring", "/ring", toPool("chat")+", "+far("west")), "replacePrefixMatch: /}", "replacePrefixMatch: /ring/}", 1)
	files["gone.yaml"] = routeYAML("gone", "/gone", toPool("chat")+", "+far("gone")) + throughGateways("gone", freePort(t))
	up(t, files)
	at := local(here)
	eventuallyLists(t, at+"/west", "qwen")
	eventuallyLists(t, at+"/both", "phi", "qwen")
	eventuallyLists(t, at+"/all", "llama", "phi", "qwen")
	eventuallyLists(t, at+"/ring", "llama", "qwen")
	eventuallyLists(t, at+"/gone", "llama")
	got := map[int]bool{}
	for range 40 { // no other request is answered by the picker: one of the two clusters has the model
		got[ask(t, at+"/both", strings.Replace(question, "llama", "qwen", 1)).status] = true
	}
	if len(got) != 2 || !got[http.StatusOK] || !got[http.StatusNotFound] {
		t.Errorf("requests are answered %v", got)
	}
}

// A backendRef's subset of a pool has the models of that subset's servers.
func TestModels_ListOfASubsetHasThatOfItsServersAlone(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	files := chatFiles(port)
	files["servers.yaml"] = zoneServers("chat", "east", modelServer(t, sim.Config{Name: "e", Model: "small"})) + zoneServers("chat", "west", modelServer(t, sim.Config{Name: "w", Model: "large"}))
	files["policies.yaml"] = subsetPolicy("east") + subsetPolicy("west")
	files["one.yaml"] = routeYAML("one", "/one", within("chat", "east", 1))
	files["two.yaml"] = routeYAML("two", "/two", within("chat", "east", 1)+", "+within("chat", "west", 1))
	up(t, files)
	eventuallyLists(t, local(port)+"/one", "small")
	eventuallyLists(t, local(port)+"/two", "large", "small")
	eventuallyLists(t, local(port), "large", "small")
}

// silentServer is a model server without a list of models.
func silentServer(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no list here", http.StatusNotFound) })}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}
