package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

// This file checks that Envoy has nothing stale at the end of a run. A fresh translation of the
// folder gives the expected names, and a fresh Envoy gives the expected content.

// resources has resources' content by "type name", without the marks (see mark), which differ
// between Envoys.
type resources map[string]string

// sections are the lists of a configuration dump with resources from ADS. resource and name are
// field names of a list's elements.
var sections = []struct{ kind, list, state, resource, name string }{
	{"cluster", "dynamic_active_clusters", "", "cluster", "name"},
	{"warming cluster", "dynamic_warming_clusters", "", "cluster", "name"},
	{"listener", "dynamic_listeners", "active_state", "listener", "name"},
	{"warming listener", "dynamic_listeners", "warming_state", "listener", "name"},
	{"draining listener", "dynamic_listeners", "draining_state", "listener", "name"},
	{"route", "dynamic_route_configs", "", "route_config", "name"},
	{"endpoint", "dynamic_endpoint_configs", "", "endpoint_config", "cluster_name"},
	{"secret", "dynamic_active_secrets", "", "secret", "name"},
	{"warming secret", "dynamic_warming_secrets", "", "secret", "name"},
}

func dump(ctx context.Context, admin int) (resources, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("http://127.0.0.1:%d/config_dump?include_eds", admin), nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return readDump(text)
}

func readDump(text []byte) (resources, error) {
	var all struct {
		Configs []map[string]json.RawMessage `json:"configs"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("configuration dump: %w", err)
	}
	out := resources{}
	for _, config := range all.Configs {
		for _, s := range sections {
			var list []map[string]json.RawMessage
			if config[s.list] == nil {
				continue
			}
			if err := json.Unmarshal(config[s.list], &list); err != nil {
				return nil, fmt.Errorf("%s: %w", s.list, err)
			}
			for _, element := range list {
				if nack := element["error_state"]; nack != nil {
					return nil, fmt.Errorf("a %s has a NACK: %s", s.kind, nack)
				}
				if s.state != "" {
					state := element[s.state]
					element = nil
					if state != nil && json.Unmarshal(state, &element) != nil {
						return nil, fmt.Errorf("%s: %s", s.list, state)
					}
				}
				if element[s.resource] == nil {
					continue
				}
				var object map[string]any
				if err := json.Unmarshal(element[s.resource], &object); err != nil {
					return nil, fmt.Errorf("%s: %w", s.list, err)
				}
				if strings.HasSuffix(s.kind, "secret") {
					unmark(object)
				}
				if object[s.name] == "penstock-gate" {
					unjudge(object)
				}
				text, err := json.Marshal(object) // json.Marshal sorts the keys
				if err != nil {
					return nil, fmt.Errorf("%s: %w", s.list, err)
				}
				out[fmt.Sprintf("%s %s", s.kind, object[s.name])] = string(text)
			}
		}
	}
	return out, nil
}

// mark matches a line that Penstock writes before a certificate that it sends again, because Envoy
// would acknowledge equal bytes without checking them again (xds/publish/secret.go). A fresh Envoy
// gets no such line.
var mark = regexp.MustCompile(`^[0-9a-f]+ [0-9a-f]+ [0-9a-f]+\n`)

func unmark(object map[string]any) {
	certificate, _ := object["tls_certificate"].(map[string]any)
	chain, _ := certificate["certificate_chain"].(map[string]any)
	text, _ := chain["inline_bytes"].(string)
	if raw, err := base64.StdEncoding.DecodeString(text); err == nil && len(raw) > 0 {
		chain["inline_bytes"] = base64.StdEncoding.EncodeToString(mark.ReplaceAll(raw, nil))
	}
}

// unjudge removes the health of endpoints that Envoy checks: this health changes after a gate has
// stopped.
func unjudge(value any) {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "health_status")
		for _, v := range value {
			unjudge(v)
		}
	case []any:
		for _, v := range value {
			unjudge(v)
		}
	}
}

func (r *run) translated(ctx context.Context) ([]string, error) {
	files, err := r.resolved()
	if err != nil {
		return nil, err
	}
	text, err := exec.CommandContext(ctx, r.Penstock, "translate", "-f", files, "-o", "json", "--gateway",
		"default/gw").Output()
	if err != nil {
		return nil, fmt.Errorf("penstock translate: %w", err)
	}
	var all map[string]json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&all); err != nil {
		return nil, err
	}
	var names []string
	for kind, key := range map[string]string{"listeners": "name", "routes": "name", "clusters": "name",
		"endpoints": "cluster_name", "secrets": "name"} {
		var list []map[string]any
		if all[kind] == nil {
			continue
		}
		if err := json.Unmarshal(all[kind], &list); err != nil {
			return nil, err
		}
		for _, item := range list {
			names = append(names, fmt.Sprintf("%s %s", strings.TrimSuffix(kind, "s"), item[key]))
		}
	}
	slices.Sort(names)
	return names, nil
}

// nothingStale waits until each Envoy that received all changes has the resource names of a fresh
// translation and the content of a fresh Envoy.
func (r *run) nothingStale(ctx context.Context) error {
	r.note("comparing Envoy's resources with a fresh translation and a fresh Envoy")
	fresh, err := r.edge("fresh", r.planes...)
	if err != nil {
		return err
	}
	defer func() { _ = fresh.Stop(r.Drain) }()
	if err := fresh.live(ctx); err != nil {
		return err
	}
	for _, e := range r.edges {
		if err := process.Eventually(ctx, e.Name+" has the expected resources",
			func() error { return r.stale(ctx, e, fresh) }); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) stale(ctx context.Context, e, fresh edge) error {
	names, err := r.translated(ctx)
	if err != nil {
		return err
	}
	got, err := dump(ctx, e.admin)
	if err != nil {
		return err
	}
	want, err := dump(ctx, fresh.admin)
	if err != nil {
		return err
	}
	var has []string
	for name := range got {
		// The prefix health/ depends on a probe of a picker. A translation of files has no probes.
		has = append(has, strings.Replace(name, " health/", " ", 1))
	}
	slices.Sort(has)
	return errors.Join(differs(slices.Compact(has), names), got.differs(want))
}

func differs(got, want []string) error {
	var problems []error
	for _, name := range got {
		if !slices.Contains(want, name) {
			problems = append(problems, fmt.Errorf("%s is stale", name))
		}
	}
	for _, name := range want {
		if !slices.Contains(got, name) {
			problems = append(problems, fmt.Errorf("%s is missing", name))
		}
	}
	return errors.Join(problems...)
}

func (got resources) differs(want resources) error {
	err := differs(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if other, ok := want[name]; ok && other != got[name] {
			err = errors.Join(err,
				fmt.Errorf("%s is …%s want …%s", name, from(got[name], other), from(other, got[name])))
		}
	}
	return err
}

func from(text, other string) string {
	at := 0
	for at < min(len(text), len(other)) && text[at] == other[at] {
		at++
	}
	return text[max(0, at-100):min(len(text), at+200)]
}
