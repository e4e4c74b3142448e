package envoy

import (
	"maps"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
)

// taskPaths lists the paths of a task's API.
var taskPaths = []struct {
	task  string
	paths []string
}{
	{v1alpha1.TextGeneration, []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"}},
	{v1alpha1.TextEmbedding, []string{"/v1/embeddings"}},
	{v1alpha1.TextRerank, []string{"/v1/rerank", "/v2/rerank", "/rerank"}},
}

// taskOf returns the task of models that have these paths alone; "" if there are others.
func taskOf(paths []string) (task string, all []string) {
	for _, t := range taskPaths {
		if !slices.ContainsFunc(paths, func(p string) bool { return !slices.Contains(t.paths, p) }) {
			return t.task, t.paths
		}
	}
	return "", nil
}

// modelTasks returns the paths of each model of a host that has the paths of one task alone. A host
// that hides its models, or has text generation alone, has none.
func modelTasks(vh *model.VirtualHost) map[string][]string {
	paths, other := map[string][]string{}, map[string]bool{}
	for i := range vh.Routes {
		r := &vh.Routes[i]
		if hidden(vh, r) {
			return nil
		}
		for _, h := range r.Match.Headers {
			if h.Name == ModelHeader && !h.Regex && !h.Present {
				paths[h.Value] = append(paths[h.Value], r.Match.Path)
				other[h.Value] = other[h.Value] || r.Match.PathKind == model.PathRegex
			}
		}
	}
	maps.DeleteFunc(paths, func(name string, list []string) bool {
		task, _ := taskOf(list)
		return task == "" || other[name]
	})
	for _, list := range paths {
		if task, _ := taskOf(list); task != taskPaths[0].task {
			return paths
		}
	}
	return nil
}

// unscanned returns routes for the paths of text generation that no route of the host has: their
// scans find a model of another task in a request.
func unscanned(vh *model.VirtualHost, tasks map[string][]string) (out []*model.Route) {
	if len(tasks) == 0 {
		return nil
	}
	for _, path := range taskPaths[0].paths {
		if slices.ContainsFunc(vh.Routes, func(r model.Route) bool { return r.Match.Path == path }) {
			continue
		}
		byModel := []model.ValueMatch{{Name: ModelHeader, Present: true}}
		out = append(out, &model.Route{Name: noModelRoute,
			Match: model.Match{PathKind: model.PathPrefix, Path: path, Headers: byModel}})
	}
	return out
}

// maxOtherPaths bounds the routes of otherPaths.
const maxOtherPaths = 256

// otherPaths answers requests for a model at the path of another task. Their answer is the one of
// noModel, with the task and the paths of the model.
func otherPaths(tasks map[string][]string) (out []*routev3.Route) {
	for _, name := range slices.Sorted(maps.Keys(tasks)) {
		if len(out) == maxOtherPaths {
			break
		}
		task, paths := taskOf(tasks[name])
		paths = slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return !slices.Contains(tasks[name], p) })
		r := without(" at this path: it serves " + task + " at " + strings.Join(paths, ", "))
		r.Match.Headers = []*routev3.HeaderMatcher{{Name: ModelHeader,
			HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
				MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name}}}}}
		out = append(out, r)
	}
	return out
}

// textOf is the metadata of a route with the rest of its answer.
func textOf(text string) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{"models": structpb.NewStringValue(text)}}
}
