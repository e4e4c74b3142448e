package picker

import (
	"time"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/picker/schedule"
)

func (pool *pool) scheduled(r *extproc.Request, now time.Time) schedule.Request {
	q := schedule.Request{Model: servedModel(&r.Facts), Stream: r.Facts.Stream,
		Responses: r.Facts.Kind == request.Responses, Tokens: promptTokens(r), Chain: r.Facts.Chain,
		Exact: r.Facts.Exact, Criticality: criticality(pool.priority(r)), Spread: r.Facts.Spread,
		MaxTokens: r.Facts.MaxTokens, Objective: pool.objective(r.Headers.Header),
		Session: pool.session(r.Headers.Header, now)}
	if q.Model == "" { // the body was not read
		q.Model = string(r.Headers.Header(modelHeader))
	}
	if p := pool.profile(); p != nil {
		q.Items = r.Facts.Items
		if p.Headers {
			q.Header = r.Headers.Header
		}
		if p.ByHeader != nil {
			q.Profile = string(r.Headers.Header(p.ByHeader.Header))
		}
	}
	return q
}

func (pool *pool) profile() *endpointpicker.Profile {
	if pool.Strategy != schedule.Plugins {
		return nil
	}
	return pool.Plugins
}

func promptTokens(r *extproc.Request) int {
	if r.Bodyless {
		return 1
	}
	if r.Facts.Size == 0 { // the body was not read, so its length estimates the prompt
		return min(contentLength(r)/prefix.BytesPerToken, prefix.MaxTokens)
	}
	return r.Facts.Tokens
}

func servedModel(f *request.Facts) string {
	if f.Target != nil {
		return f.Target.Name
	}
	return f.Model
}

func contentLength(r *extproc.Request) int {
	return extproc.Digits(r.Headers.Header("content-length"), 9)
}
