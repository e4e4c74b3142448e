package demo

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/external"
	"github.com/penstock-project/penstock/picker/external/preprocess"
	"github.com/penstock-project/penstock/picker/external/router"
	"github.com/penstock-project/penstock/picker/modelserver"
)

// external serves the paths of a part of penstock-external at a port of this name, and returns its
// URL.
func (d *show) external(name string, cfg external.ServerConfig, paths func(*external.Server)) string {
	cfg.Listen, cfg.Grace, cfg.Log = "127.0.0.1:0", time.Second, slog.New(slog.DiscardHandler)
	server := external.NewServer(cfg)
	paths(server)
	d.ports[name] = portOf(must(server.Open()))
	d.group.Go(func() error { return server.Run(d.ctx) })
	return "http://" + d.address(name)
}

// processors starts a router of the servers of qwen, and two processors. They are as in
// penstock-external, except for the vocabulary: a token is a byte.
func (d *show) processors(tokens string) {
	var workers []string
	for _, name := range names("qwen") {
		workers = append(workers, d.address(name))
	}
	quiet := slog.New(slog.DiscardHandler)
	routes := must(router.New(router.Config{Workers: workers, Log: quiet}, prometheus.NewRegistry()))
	routerURL := d.external("router", router.ServerConfig(), routes.Paths)
	for name, store := range map[string]string{"stores-tokens": tokens, "sends-tokens": ""} {
		p := must(preprocess.New(preprocess.Config{
			Tokenize: bytesAsTokens, Router: routerURL, Tokens: store, Log: quiet,
		}, prometheus.NewRegistry()))
		d.external(name, preprocess.ServerConfig(), p.Paths)
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
func prepared(d *show) []any {
	q := question("qwen", "Once there was a fox that jumped over a lazy dog each day, and a dog that slept through "+
		"all of it, and dreamt of foxes. Who jumped?", 2)
	yes, no := true, false
	home := ""
	for _, part := range []struct {
		prefix, text string
		route        *bool
		from         string
	}{
		{"/stored", "Phase 1: the token IDs travel through the store, and the header has their key. The request asks " +
			"for the router:", &yes, "store"},
		{"/sent", "Phase 2: the token IDs travel in the body. The policy asks for the router:", nil, "body"},
		{"/sent", "The same without the router, because the request prefers the picker's own choice:", &no, "body"},
	} {
		d.text("%s", part.text)
		q.Route = part.route
		d.curl(part.prefix, q)
		for range 3 {
			a := d.askFrom("qwen-", part.prefix, q)
			d.by(a.By, "%s", d.paint(faint, "token IDs from the "+a.TokenIDs))
			expect(a.TokenIDs == part.from, "the server to have its token IDs from the %s; it has them from the %s",
				part.from, a.TokenIDs)
			if q.Route != &no {
				expect(home == "" || a.By == home,
					"the router to choose %s, which was sent the same prompt; it chose %s", home, a.By)
				home = a.By
			}
		}
		if q.Route != &no {
			d.line("     %s", d.paint(faint, "it received "+d.received(home)))
		}
	}
	d.why()
	return []any{home}
}

func (d *show) received(server string) string {
	last := d.lastRequest(d.address(server))
	if key := last.Headers.Get(modelserver.TokensKeyHeader); key != "" {
		return modelserver.TokensKeyHeader + ": " + key
	}
	return last.Body[:min(len(last.Body), 48)] + " ..."
}
