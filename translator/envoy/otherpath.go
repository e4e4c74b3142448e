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

var taskPaths = []struct {
	task  string
	paths []string
}{
	{v1alpha1.TextGeneration, []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"}},
	{v1alpha1.TextEmbedding, []string{"/v1/embeddings"}},
	{v1alpha1.TextRerank, []string{"/v1/rerank", "/v2/rerank", "/rerank"}},
}

// taskOf returns the task whose API has all these paths, and all paths of the API; "" if no API has
// them all.
func taskOf(paths []string) (task string, all []string) {
	for _, t := range taskPaths {
		if !slices.ContainsFunc(paths, func(p string) bool { return !slices.Contains(t.paths, p) }) {
			return t.task, t.paths
		}
	}
	return "", nil
}

// modelTasks returns the route paths of each model that has paths of one task only. It returns nil
// if clients must not learn the host's models (hidden), or if text generation is the only task.
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

// unscanned returns routes for paths of text generation that the host does not route. Their scan
// routes read the model from the body, so that otherPaths can answer.
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

const maxOtherPaths = 256

// otherPaths returns routes for requests with a model at the path of another task. The answer is
// noModel's, but with the model's task and paths.
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

func textOf(text string) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{"models": structpb.NewStringValue(text)}}
}
