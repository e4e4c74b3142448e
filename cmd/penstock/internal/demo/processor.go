package demo

import (
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/cmd/internal/external"
	"github.com/penstock-project/penstock/cmd/internal/external/preprocess"
	"github.com/penstock-project/penstock/cmd/internal/external/router"
	"github.com/penstock-project/penstock/picker/modelserver"
)

// external serves the paths of a part of penstock-external, and returns its address.
func (d *show) external(cfg external.ServerConfig, paths func(*external.Server)) string {
	server := external.NewServer(cfg)
	paths(server)
	return d.serve(server)
}

// processors starts a router of the servers of qwen, and two processors, as penstock-external has
// them, except for their vocabulary: a token is a byte.
func (d *show) processors(tokens string) {
	var workers []string
	for _, name := range names("qwen") {
		workers = append(workers, fmt.Sprintf("127.0.0.1:%d", d.ports[name]))
	}
	quiet := slog.New(slog.DiscardHandler)
	routes := must(router.New(router.Config{Workers: workers, Log: quiet}, prometheus.NewRegistry()))
	routerURL := "http://" + d.external(router.ServerConfig(), routes.Paths)
	for name, store := range map[string]string{"stores-tokens": tokens, "sends-tokens": ""} {
		p := must(preprocess.New(preprocess.Config{
			Tokenize: bytesAsTokens, Router: routerURL, Tokens: store, Log: quiet,
		}, prometheus.NewRegistry()))
		d.ports[name] = portOf(d.external(preprocess.ServerConfig(), p.Paths))
	}
}

func bytesAsTokens(text string) ([]uint32, error) {
	out := make([]uint32, len(text))
	for i := range text {
		out[i] = uint32(text[i])
	}
	return out, nil
}

// prepared shows both ways of token IDs to a server, and both ways to choose the server.
func prepared(d *show, _ string) string {
	q := question("qwen",
		"Once there was a fox that jumped over a lazy dog each day, and a dog that slept through all of "+
			"it, and dreamt of foxes. Who jumped?")
	q.MaxTokens = 2
	yes, no := true, false
	home := ""
	for _, part := range []struct {
		prefix, text string
		route        *bool
		from         string
		routed       bool
	}{
		{"/stored", "Phase 1: the token IDs travel through the store, and the header has their key. The request asks " +
			"for the router:", &yes, "store", true},
		{"/sent", "Phase 2: the token IDs travel in the body. The policy asks for the router:", nil, "body", true},
		{"/sent", "The same without the router, because the request prefers the picker's own choice:", &no, "body",
			false},
	} {
		d.text(part.text)
		q.Route = part.route
		d.curl(part.prefix, q)
		for range 3 {
			resp := must(d.post(d.ctx, d.url+part.prefix, q))
			_ = resp.Body.Close()
			by, from := resp.Header.Get("x-served-by"), resp.Header.Get(modelserver.TokensFromHeader)
			check(answer{Status: resp.StatusCode, By: by}.expectFrom("qwen-"))
			d.line("     %s  %s", d.column(by), d.paint(faint, "token IDs from the "+from))
			expect(from == part.from, "the server to have its token IDs from the %s; it has them from the %s",
				part.from,
				from)
			if part.routed {
				expect(home == "" || by == home, "the router to choose %s, which was sent the same prompt; it chose %s",
					home, by)
				home = by
			}
		}
		if part.routed {
			d.line("     %s", d.paint(faint, "it received "+d.received(home)))
		}
	}
	d.why("the processor tokenized each prompt, and its router remembers which server was sent which. A client's own " +
		"key or token IDs never reach a server.")
	return fmt.Sprintf("the router sent the prompt to %s each time, with its token IDs by key and in the body", home)
}

// received describes the token IDs of a server's last request.
func (d *show) received(server string) string {
	last := d.lastRequest(fmt.Sprintf("127.0.0.1:%d", d.ports[server]))
	if key := last.Headers.Get(modelserver.TokensKeyHeader); key != "" {
		return modelserver.TokensKeyHeader + ": " + key
	}
	return last.Body[:min(len(last.Body), 48)] + " ..."
}
