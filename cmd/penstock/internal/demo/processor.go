package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/cmd/internal/external"
	"github.com/penstock-project/penstock/cmd/internal/external/preprocess"
	"github.com/penstock-project/penstock/cmd/internal/external/router"
	"github.com/penstock-project/penstock/cmd/internal/external/tokenstore"
	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// The pools whose requests a processor prepares: their paths, and the names of their processors'
// ports.
const (
	stored, sent              = "/stored", "/sent"
	storesTokens, sendsTokens = "stores-tokens", "sends-tokens"
)

// programs are a token store, a router of the servers of qwen, and two processors, as in
// penstock-external, except for the vocabulary: a token is a byte.
type programs struct {
	tokens  string // URL of the token store
	servers []*http.Server
	open    []net.Listener
}

// serve opens a listener for the paths of a program, and returns its URL.
func (s *programs) serve(cfg external.ServerConfig, paths func(*external.Server)) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := external.NewServer(cfg)
	paths(server)
	s.servers, s.open = append(s.servers, &http.Server{Handler: server, ReadHeaderTimeout: timeout}), append(s.open, l)
	return "http://" + l.Addr().String(), nil
}

// startStore opens the token store, whose URL the servers need.
func (s *programs) startStore() (err error) {
	store := tokenstore.New(tokenstore.Config{}, prometheus.NewRegistry())
	s.tokens, err = s.serve(tokenstore.ServerConfig(), store.Paths)
	return err
}

// startProcessors opens the others, and adds their ports.
func (s *programs) startProcessors(ports map[string]int) error {
	var workers []string
	for _, name := range names("qwen") {
		workers = append(workers, fmt.Sprintf("127.0.0.1:%d", ports[name]))
	}
	routes, err := router.New(router.Config{Workers: workers, Log: slog.New(slog.DiscardHandler)},
		prometheus.NewRegistry())
	if err != nil {
		return err
	}
	routerURL, err := s.serve(router.ServerConfig(), routes.Paths)
	if err != nil {
		return err
	}
	for name, tokens := range map[string]string{storesTokens: s.tokens, sendsTokens: ""} {
		p, err := preprocess.New(preprocess.Config{
			Tokenize: bytesAsTokens, Router: routerURL, Tokens: tokens, Log: slog.New(slog.DiscardHandler),
		}, prometheus.NewRegistry())
		if err != nil {
			return err
		}
		at, err := s.serve(preprocess.ServerConfig(), p.Paths)
		if err != nil {
			return err
		}
		ports[name] = int(portOf(strings.TrimPrefix(at, "http://")))
	}
	return nil
}

func (s *programs) run(ctx context.Context, run func(func() error)) {
	for i, server := range s.servers {
		run(func() error {
			if err := server.Serve(s.open[i]); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	run(func() error {
		<-ctx.Done()
		s.close()
		return nil
	})
}

func (s *programs) close() {
	for i, server := range s.servers {
		_ = server.Close()
		_ = s.open[i].Close()
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
func prepared(ctx context.Context, s *stage, p *page, _ string) (string, error) {
	q := question("qwen",
		"Once there was a fox that jumped over a lazy dog each day, and a dog that slept through all of it, and "+
			"dreamt of foxes. Who jumped?")
	q.MaxTokens = 2
	yes, no := true, false
	home := ""
	for _, part := range []struct {
		prefix, text string
		route        *bool
		from         string
		routed       bool
	}{
		{
			stored,
			"Phase 1: the token IDs travel through the store, and the header has their key. The request asks for " +
				"the router:", &yes, "store", true,
		},
		{sent, "Phase 2: the token IDs travel in the body. The policy asks for the router:", nil, "body", true},
		{sent, "The same without the router, because the request prefers the picker's own choice:", &no, "body", false},
	} {
		p.text(part.text)
		q.Route = part.route
		p.curl(part.prefix, q)
		for range 3 {
			a, from, err := s.askPrepared(ctx, part.prefix, q)
			if err != nil {
				return "", err
			}
			if err := a.expectFrom("qwen-"); err != nil {
				return "", err
			}
			p.line("     %s  %s", p.column(a.By), p.paint(faint, "token IDs from the "+from))
			switch {
			case from != part.from:
				return "",
					fmt.Errorf("expected the server to have its token IDs from the %s; it has them from the %s",
						part.from, from)
			case part.routed && home != "" && a.By != home:
				return "",
					fmt.Errorf("expected the router to choose %s, which was sent the same prompt; it chose %s", home,
						a.By)
			case part.routed:
				home = a.By
			}
		}
		if part.routed {
			what, err := s.received(ctx, s.ports[home])
			if err != nil {
				return "", err
			}
			p.line("     %s", p.paint(faint, "it received "+what))
		}
	}
	p.why(
		"the processor tokenized each prompt, and its router remembers which server was sent which. A client's own " +
			"key or token IDs never reach a server.")
	return fmt.Sprintf("the router sent the prompt to %s each time, with its token IDs by key and in the body", home),
		nil
}

// askPrepared posts a question. It also returns where the server had its token IDs from.
func (s *stage) askPrepared(ctx context.Context, prefix string, q chat) (a answer, from string, err error) {
	began := time.Now()
	resp, err := s.post(ctx, s.here.url+prefix, q)
	if err != nil {
		return a, "", err
	}
	defer resp.Body.Close()
	a = answer{Status: resp.StatusCode, By: resp.Header.Get("x-served-by"), At: resp.Header.Get("x-served-at"),
		Took: time.Since(began)}
	return a, resp.Header.Get(sim.TokensFromHeader), nil
}

// received describes the token IDs of a server's last request.
func (s *stage) received(ctx context.Context, port int) (string, error) {
	_, body, err := s.get(ctx, fmt.Sprintf("http://127.0.0.1:%d/debug/last", port))
	if err != nil {
		return "", err
	}
	var last struct {
		Headers http.Header
		Body    string
	}
	if err := json.Unmarshal(body, &last); err != nil {
		return "", fmt.Errorf("what the server on port %d received: %w", port, err)
	}
	if key := last.Headers.Get(sim.TokensKeyHeader); key != "" {
		return sim.TokensKeyHeader + ": " + key, nil
	}
	return last.Body[:min(len(last.Body), 48)] + " ...", nil
}
