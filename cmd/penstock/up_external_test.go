package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/cmd/internal/external"
	"github.com/penstock-project/penstock/cmd/internal/external/preprocess"
	"github.com/penstock-project/penstock/cmd/internal/external/router"
	"github.com/penstock-project/penstock/cmd/internal/external/tokenstore"
	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// bytesAsTokens has a token for each byte.
func bytesAsTokens(text string) ([]uint32, error) {
	out := make([]uint32, len(text))
	for i := range text {
		out[i] = uint32(text[i])
	}
	return out, nil
}

// program serves the paths of one of penstock-external's programs.
func program(t *testing.T, cfg external.ServerConfig, paths func(*external.Server)) *httptest.Server {
	t.Helper()
	server := external.NewServer(cfg)
	paths(server)
	at := httptest.NewServer(server)
	t.Cleanup(at.Close)
	return at
}

// processorProgram is the processor, with a router and a token store; "" for none.
func processorProgram(t *testing.T, router, tokens string) string {
	t.Helper()
	p, err := preprocess.New(preprocess.Config{Tokenize: bytesAsTokens, Router: router, Tokens: tokens, Log: slog.New(slog.DiscardHandler)}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	at, _ := url.Parse(program(t, preprocess.ServerConfig(), p.Paths).URL)
	return at.Host
}

// Each branch of the Dynamo proposal's diagram, with its processor, router, token store and workers.
func TestProcessor_EachBranchOfTheProposalReachesTheWorker(t *testing.T) {
	t.Parallel()
	store := tokenstore.New(tokenstore.Config{}, prometheus.NewRegistry())
	tokens := program(t, tokenstore.ServerConfig(), store.Paths).URL
	workers := []string{modelServer(t, sim.Config{Name: "worker-1", Tokens: tokens}), modelServer(t, sim.Config{Name: "worker-2", Tokens: tokens})}
	routes, err := router.New(router.Config{Workers: workers[1:]}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	choices := program(t, router.ServerConfig(), routes.Paths).URL
	gone := httptest.NewServer(nil)
	gone.Close()
	port := freePort(t)
	files := map[string]string{"gateway.yaml": gatewayYAML("gw", port)}
	type branch struct {
		name, router, tokens, member string
		routed                       bool
		from                         string // where the worker has the token IDs from
	}
	branches := []branch{
		{"routed-key", choices, tokens, `,"route":true`, true, "store"},
		{"routed-value", choices, "", `,"route":true`, true, "body"},
		{"own-key", choices, tokens, "", false, "store"},
		{"own-value", choices, "", "", false, "body"},
		{"not-routed", choices, tokens, `,"route":false`, false, "store"},
		{"no-router", gone.URL, tokens, `,"route":true`, false, "store"},
		{"no-store", choices, gone.URL, `,"route":true`, true, "body"},
		{"neither", gone.URL, gone.URL, `,"route":true`, false, "body"},
	}
	for _, b := range branches {
		policy := strings.NewReplacer("name: chat", "name: "+b.name).Replace(pickerYAML("{strategy: round-robin, processor: {service: p-" + b.name + "}}"))
		files[b.name+".yaml"] = strings.Join([]string{routeYAML(b.name, "/"+b.name, toPool(b.name)), poolYAML(b.name), serversYAML(b.name, workers...), policy, serviceAt("p-"+b.name, processorProgram(t, b.router, b.tokens))}, "---\n")
	}
	up(t, files)
	for _, b := range branches {
		t.Run(b.name, func(t *testing.T) {
			at := local(port) + "/" + b.name
			answers(t, at, http.StatusOK)
			served := map[string]bool{}
			for range 4 {
				got := ask(t, at, `{"model":"llama","max_tokens":2,"messages":[{"role":"user","content":"ab"}]`+b.member+`}`, "x-req-tokens-key", "of-another-tenant")
				served[got.header.Get("x-served-by")] = true
				if text := strings.ReplaceAll(got.body, " ", ""); got.status != http.StatusOK || got.header.Get(sim.TokensFromHeader) != b.from || !strings.Contains(text, fmt.Sprintf(`"prompt_tokens":%d`, len("user: ab\n"))) {
					t.Errorf("%d from %s, token IDs from %q: %s", got.status, got.header.Get("x-served-by"), got.header.Get(sim.TokensFromHeader), got.body)
				}
			}
			if b.routed != (len(served) == 1) || b.routed && !served["worker-2"] {
				t.Errorf("served by %v", served)
			}
			for _, w := range workers {
				if served["worker-"+map[string]string{workers[0]: "1", workers[1]: "2"}[w]] && strings.Contains(lastRequest(t, w).Body, `"route"`) {
					t.Errorf("the worker gets %s", lastRequest(t, w).Body)
				}
			}
		})
	}
}
