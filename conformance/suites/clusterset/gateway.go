package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type entrance struct {
	*member
	url    string
	client *http.Client
	last   int
}

type response struct {
	answer
	id, status int
	details    string
}

// enter creates a Gateway, and waits until it is programmed.
func (r *run) enter() *entrance {
	e := &entrance{
		member: r.members[0], client: &http.Client{
			Timeout: r.config.Timeout, Transport: &http.Transport{MaxIdleConnsPerHost: 4},
		},
	}
	r.after = append(r.after, e.client.CloseIdleConnections)
	e.settle()
	e.create(
		fmt.Sprintf(
			"apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: gw}\nspec: {gatewayClassName: "+
				"%s, listeners: [{name: http, port: %d, protocol: HTTP}]}\n",
			r.config.GatewayClass, r.config.GatewayPort))
	r.until("Gateway gw is programmed, and has an address", func() error {
		gw, err := e.in(gateways).Get(r, "gw", metav1.GetOptions{})
		if err != nil {
			return err
		}
		status, _, _ := unstructured.NestedMap(gw.Object, "status")
		at := list(status, "addresses")
		if len(at) == 0 {
			return errors.New("status.addresses is empty")
		}
		e.url = "http://" + net.JoinHostPort(fmt.Sprint(at[0]["value"]), strconv.Itoa(r.config.GatewayPort))
		return condition(status, "Programmed", "True")
	})
	return e
}

// route creates an HTTPRoute to imports, given as "NAME" or "NAME=WEIGHT".
func (e *entrance) route(to ...string) {
	e.create(
		"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: llm}\nspec: {parentRefs: " +
			"[{name: gw}], rules: [{backendRefs: " + backends(to) + "}]}\n")
}

func (e *entrance) reroute(to ...string) {
	e.change(routes, "llm", `{"spec":{"rules":[{"backendRefs":`+backends(to)+`}]}}`)
}

func backends(to []string) string {
	var refs []map[string]any
	for _, t := range to {
		name, weight, weighted := strings.Cut(t, "=")
		ref := map[string]any{"group": importGroup, "kind": "InferencePoolImport", "name": name}
		if n, err := strconv.Atoi(weight); weighted && err == nil {
			ref["weight"] = n
		}
		refs = append(refs, ref)
	}
	raw, _ := json.Marshal(refs) // cannot fail: refs has maps of strings and numbers
	return string(raw)
}

func (e *entrance) write(name string, entries ...map[string]any) {
	u, err := e.in(imports).Get(e.run, name, metav1.GetOptions{})
	if err != nil {
		u = e.create(
			"apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: " + name +
				"}\n")
	}
	clusters := []any{}
	for _, entry := range entries {
		clusters = append(clusters, entry)
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"clusters": clusters}})
	e.run.must(err)
	e.change(imports, u.GetName(), string(patch), "status")
}

func (e *entrance) ask(path string, body []byte) (response, error) {
	e.last++
	out := response{id: e.last}
	req, err := http.NewRequestWithContext(e.run, http.MethodPost, e.url+path, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	req.Header.Set("content-type", "application/json")
	req.Header.Set(idHeader, strconv.Itoa(out.id))
	resp, err := e.client.Do(req)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if out.status = resp.StatusCode; out.status != http.StatusOK {
		out.details = fmt.Sprintf("headers %v, body %.200q", resp.Header, raw)
	} else if err == nil {
		err = json.Unmarshal(raw, &out.answer)
	}
	return out, err
}

const completions = "/v1/chat/completions"

var chat = []byte(`{"model": "any", "messages": [{"role": "user", "content": "Hello"}]}`)

func (e *entrance) chat(status int) response {
	got, err := e.ask(completions, chat)
	if err == nil && got.status != status {
		err = fmt.Errorf("it answers %d, want %d; %s", got.status, status, got.details)
	}
	if err != nil {
		e.run.fail("POST %s%s: %w", e.url, completions, err)
	}
	return got
}

// answers waits for a response with this status from a cluster; "": any cluster.
func (e *entrance) answers(status int, cluster string) (got response) {
	e.run.until(fmt.Sprintf("POST %s%s answers %d %s", e.url, completions, status, cluster), func() (err error) {
		got, err = e.ask(completions, chat)
		if err == nil && (got.status != status || cluster != "" && got.Cluster != cluster) {
			err = fmt.Errorf("it answers %d %q%s, want %d %q", got.status, got.Cluster, got.details, status, cluster)
		}
		return err
	})
	return got
}
