package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A panic in one of these parts does not end the process.
const (
	partTranslation = "translation"
	partStream      = "stream"
	partScrape      = "scrape"
	partPick        = "pick"
	partPage        = "page"
	partStatus      = "status"
	partLookup      = "lookup"
)

const (
	// maxPanicText and maxPanicStack are in bytes.
	maxPanicText, maxPanicStack = 1 << 10, 16 << 10
	maxPanicPlaces              = 256
)

type panics struct {
	log   *slog.Logger
	count *prometheus.CounterVec

	mu     sync.Mutex
	logged map[string]struct{}
}

func newPanics(log *slog.Logger) *panics {
	p := &panics{log: log, logged: map[string]struct{}{}, count: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "penstock_panics_total",
		Help: "Panics that harmed one object (part translation), stream, scrape, pick, page, written status or " +
			"lookup of a host name, and nothing else. Each is a bug; the log has its stack.",
	}, []string{"part"})}
	for _, part := range []string{partTranslation, partStream, partScrape, partPick, partPage, partStatus, partLookup} {
		p.count.WithLabelValues(part)
	}
	return p
}

func (p *panics) of(part string) func(what string, value any, stack []byte) {
	return func(what string, value any, stack []byte) { p.report(part, what, value, stack) }
}

func (p *panics) report(part, what string, value any, stack []byte) {
	p.count.WithLabelValues(part).Inc()
	if !p.first(part + place(stack)) {
		return
	}
	text := fmt.Sprint(value)
	p.log.Error("panic: a bug of Penstock; everything else goes on", "part", part, "what", what,
		"panic", text[:min(len(text), maxPanicText)], "stack", string(stack[:min(len(stack), maxPanicStack)]))
}

func (p *panics) first(place string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, again := p.logged[place]; again {
		return false
	}
	if len(p.logged) >= maxPanicPlaces {
		clear(p.logged)
	}
	p.logged[place] = struct{}{}
	return true
}

func place(stack []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(stack)) {
		if at, ok := strings.CutPrefix(line, "\t"); ok {
			at, _, _ = strings.Cut(at, " +0x")
			b.WriteString(at)
		}
	}
	return b.String()
}

// calls returns options that turn a panic into the status INTERNAL, as if the picker had failed.
func (p *panics) calls(part string) []grpc.ServerOption {
	guard := func(method string, err *error) {
		if v := recover(); v != nil {
			p.report(part, method, v, debug.Stack())
			*err = status.Error(codes.Internal, "the call ended by a bug of Penstock; its log has the stack")
		}
	}
	return []grpc.ServerOption{
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
			handle grpc.StreamHandler) (err error) {
			defer guard(info.FullMethod, &err)
			return handle(srv, stream)
		}),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo,
			handle grpc.UnaryHandler) (_ any, err error) {
			defer guard(info.FullMethod, &err)
			return handle(ctx, req)
		}),
	}
}

func (p *panics) pages(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			switch v {
			case nil:
				return
			case http.ErrAbortHandler:
				panic(v)
			}
			p.report(partPage, r.Method+" "+r.URL.Path, v, debug.Stack())
			http.Error(w, "a bug of Penstock; its log has the stack", http.StatusInternalServerError)
		}()
		h.ServeHTTP(w, r)
	})
}
