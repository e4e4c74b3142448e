package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/penstock-project/penstock/discovery/engine/fetch"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Models downloads models. *fetch.Fetcher implements it.
type Models interface {
	Fetch(ctx context.Context, s fetch.Source, progress func(fetch.Progress)) (fetch.Model, error)
}

type pin struct {
	Wanted string `json:"wanted"` // see wantedModel
	Commit string `json:"commit,omitempty"`
	Path   string `json:"path"`
}

type models struct {
	registries map[string]*v1alpha1.ModelRegistry
	secrets    map[string]*corev1.Secret
	downloads  map[string]*download // by wantedModel
	contacts   map[string]contact   // by registry
	due        chan struct{}        // a download may begin
	invalids   invalids
}

func newModels() models {
	return models{registries: map[string]*v1alpha1.ModelRegistry{}, secrets: map[string]*corev1.Secret{},
		downloads: map[string]*download{}, contacts: map[string]contact{}, due: make(chan struct{}, 1),
		invalids: invalids{}}
}

type download struct {
	source     fetch.Source
	registries map[string]bool
	used       bool // a deployment waits for it
	running    bool
	cancel     context.CancelFunc
	progress   fetch.Progress
	model      fetch.Model // set when the download has ended
	err        error       // error of the last attempt
	failures   int
	next       time.Time // time of the next attempt
}

type modelState struct {
	path     string // "": unknown
	waits    string // why the model is absent; "": it is present
	progress fetch.Progress
	finding  *report.Finding
}

func (m *modelState) phase() (phase, message string, found []report.Finding) {
	if m.finding != nil {
		return failedReason, m.waits, nil
	}
	return downloadReason, m.waits, nil
}

// tenth is the number of completed tenths of a download; "": its size is unknown.
func (m *modelState) tenth() string {
	if m.progress.Size == 0 {
		return ""
	}
	return fmt.Sprint(10 * m.progress.Bytes / m.progress.Size)
}

func (m *models) follow(op store.Op) bool {
	switch op.Kind() {
	case store.Invalids.Kind():
		return m.invalids.follow(op)
	case store.ModelRegistries.Kind():
		delete(m.registries, op.ID())
		delete(m.contacts, op.ID())
		if r, ok := op.Object().(*v1alpha1.ModelRegistry); ok {
			m.registries[op.ID()] = r
		}
	case store.Secrets.Kind():
		delete(m.secrets, op.ID())
		if s, ok := op.Object().(*corev1.Secret); ok {
			m.secrets[op.ID()] = s
		}
		if !m.names(op.ID()) {
			return false
		}
	default:
		return false
	}
	for _, d := range m.downloads {
		d.next = time.Time{} // retry at once, because the change may correct the failure
	}
	signal(m.due)
	return true
}

func (m *models) names(secret string) bool {
	for id, r := range m.registries {
		if c := r.Spec.Credentials; c != nil {
			namespace, _, _ := objectid.Split(id)
			if objectid.Join(namespace, c.SecretRef.Name) == secret {
				return true
			}
		}
	}
	return false
}

// model returns the state of a deployment's model, and requests its download.
func (k *Keeper) model(id string, e *entry) modelState {
	spec := e.plan.Deployment.Spec.Model
	if spec.Registry == "" {
		delete(k.saved.Models, id)
		return k.localModel(e)
	}
	out := modelState{}
	old, pinned := k.saved.Models[id]
	if out.path = old.Path; !pinned {
		out.path = ""
	}
	source, local, problem := k.source(e.plan.Deployment)
	if problem != nil {
		out.waits, out.finding = problem.Problem, problem
		return out
	}
	wanted := wantedModel(source, local)
	if local != "" {
		if out.path = local; !fetch.Present(local) {
			out.finding = modelProblem("name", "there is no "+local, "correct the name, or put the model there")
			out.waits = out.finding.Problem
			return out
		}
		k.saved.Models[id] = pin{Wanted: wanted, Path: local}
		return out
	}
	if pinned && old.Wanted == wanted && fetch.Present(old.Path) {
		return out
	}
	if e.plan.Replicas == 0 || e.missing != "" {
		out.waits = "the model is not downloaded yet"
		return out
	}
	d := k.models.downloads[wanted]
	if d == nil {
		d = &download{registries: map[string]bool{}}
		k.models.downloads[wanted] = d
		signal(k.models.due)
	}
	d.used, d.source = true, source
	d.registries[objectid.Join(e.plan.Deployment.Namespace, spec.Registry)] = true
	if d.model.Path != "" && fetch.Present(d.model.Path) {
		k.saved.Models[id] = pin{Wanted: wanted, Commit: d.model.Commit, Path: d.model.Path}
		out.path = d.model.Path
		return out
	}
	out.progress, out.waits = d.progress, downloading(source, d.progress)
	if d.err != nil {
		out.finding = failure(d.err)
		out.waits = out.finding.Problem
	}
	return out
}

func downloading(s fetch.Source, p fetch.Progress) string {
	if p.Size == 0 {
		return "model " + s.Name + ": the registry is asked for its files"
	}
	return fmt.Sprintf("model %s: %s of %s (%d %%), %d of %d files", s.Name, fetch.Size(p.Bytes), fetch.Size(p.Size),
		100*p.Bytes/p.Size, p.Files, p.Total)
}

// wantedModel returns the key of a model. The key has no credential.
func wantedModel(s fetch.Source, local string) string {
	return strings.Join([]string{s.URL, s.Name, s.Revision, s.File, local}, " ")
}

func modelProblem(field, problem, fix string) *report.Finding {
	f := &report.Finding{Severity: report.Error, Field: "spec.model", Problem: problem, Fix: fix}
	if field != "" {
		f.Field += "." + field
	}
	return f
}

func failure(err error) *report.Finding {
	var e *fetch.Error
	if errors.As(err, &e) {
		return modelProblem(e.Field, e.Problem, e.Fix)
	}
	return modelProblem("", err.Error(), "see the log of penstock")
}

func (k *Keeper) source(d *v1alpha1.ModelDeployment) (s fetch.Source, local string, problem *report.Finding) {
	spec := d.Spec.Model
	registry := k.models.registries[objectid.Join(d.Namespace, spec.Registry)]
	if registry == nil && k.models.invalids.has(store.RefOf(store.ModelRegistries,
		objectid.Join(d.Namespace, spec.Registry))) {
		return s, "", modelProblem("registry", "ModelRegistry "+spec.Registry+isInvalid, correctIt)
	}
	if registry == nil {
		var names []string
		for id := range k.models.registries {
			if namespace, name, _ := objectid.Split(id); namespace == d.Namespace {
				names = append(names, name)
			}
		}
		fix := "write a ModelRegistry of this name in the namespace " + d.Namespace
		if near := report.Nearest(spec.Registry, names); near != "" {
			fix = "write " + near
		}
		return s, "", modelProblem("registry", fmt.Sprintf("there is no ModelRegistry %q", spec.Registry), fix)
	}
	if registry.Spec.Type == v1alpha1.FileRegistry {
		if spec.Version != "" {
			return s, "", modelProblem("version", "a registry of type file has no versions", "remove it")
		}
		if !filepath.IsLocal(spec.Name) || spec.File != "" && !filepath.IsLocal(spec.File) {
			return s, "", modelProblem("name", "it leads out of the registry's folder", "write a path below the folder")
		}
		return s, filepath.Join(registry.Spec.Path, spec.Name, spec.File), nil
	}
	if k.cfg.Models == nil {
		return s, "", modelProblem("registry", "this process has no folder for models", "set HF_HUB_CACHE")
	}
	s = fetch.Source{URL: registry.Spec.URL, Name: spec.Name, Revision: spec.Version, File: spec.File}
	if c := registry.Spec.Credentials; c != nil {
		if s.Token = k.models.token(d.Namespace, registry); s.Token == "" {
			return s, "", modelProblem("registry", fmt.Sprintf("ModelRegistry %s names the Secret %s, which does not "+
				"exist or has no key %s", spec.Registry, c.SecretRef.Name, tokenKey), "write the Secret")
		}
	}
	return s, "", nil
}

// token returns the credential of a registry; "" if it does not exist.
func (m *models) token(namespace string, r *v1alpha1.ModelRegistry) string {
	secret := m.secrets[objectid.Join(namespace, r.Spec.Credentials.SecretRef.Name)]
	if secret == nil {
		return ""
	}
	return strings.TrimSpace(string(secret.Data[tokenKey]))
}

const tokenKey = "token"

func (k *Keeper) dropDownloads() {
	for wanted, d := range k.models.downloads {
		if !d.used && d.cancel != nil {
			d.cancel()
		}
		if !d.used {
			delete(k.models.downloads, wanted)
		}
		d.used = false
	}
	maps.DeleteFunc(k.saved.Models, func(name string, _ pin) bool { return k.deployments[pinOwner(name)] == nil })
}

const (
	maxDownloads  = 2 // at the same time
	firstRetry    = 10 * time.Second
	longestRetry  = 5 * time.Minute
	progressEvery = time.Second
)

func (k *Keeper) download(ctx context.Context) {
	again := time.NewTicker(firstRetry)
	defer again.Stop()
	ended := make(chan struct{})
	running := 0
	for {
		for _, wanted := range k.dueDownloads(maxDownloads - running) {
			running++
			go func() {
				k.fetch(ctx, wanted)
				ended <- struct{}{}
			}()
		}
		select {
		case <-ctx.Done():
			for ; running > 0; running-- {
				<-ended
			}
			return
		case <-ended:
			running--
		case <-k.models.due:
		case <-again.C:
		}
	}
}

func (k *Keeper) dueDownloads(n int) (out []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, wanted := range slices.Sorted(maps.Keys(k.models.downloads)) {
		d := k.models.downloads[wanted]
		if len(out) < n && !d.running && d.model.Path == "" && !time.Now().Before(d.next) {
			d.running = true
			out = append(out, wanted)
		}
	}
	return out
}

func (k *Keeper) fetch(ctx context.Context, wanted string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k.mu.Lock()
	d := k.models.downloads[wanted]
	if d == nil {
		k.mu.Unlock()
		return
	}
	d.cancel = cancel
	source := d.source
	k.mu.Unlock()
	var last time.Time
	model, err := k.cfg.Models.Fetch(ctx, source, func(p fetch.Progress) {
		if now := time.Now(); now.Sub(last) >= progressEvery || p.Files == p.Total {
			last = now
			k.mu.Lock()
			d.progress, d.err = p, nil
			k.models.noted(d, nil)
			k.mu.Unlock()
			signal(k.dirty)
		}
	})
	k.mu.Lock()
	d.running, d.cancel = false, nil
	if err != nil && ctx.Err() == nil {
		k.models.noted(d, err)
	}
	if d.err = err; err == nil {
		d.model = model
	} else if ctx.Err() == nil {
		d.failures++
		d.next = time.Now().Add(min(firstRetry<<min(d.failures-1, 6), longestRetry))
		k.cfg.Log.Warn("a model was not downloaded", "model", source.Name, "error", err)
	}
	k.mu.Unlock()
	signal(k.dirty)
}
