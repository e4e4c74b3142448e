package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/set"
)

type document struct {
	*file.Written
	set v1alpha1.ClusterSet
}

// openClusterSet reads the ClusterSet that is in effect: the first by name.
func (s *files) openClusterSet() (*document, error) {
	if len(s.paths) == 0 {
		return nil, errNoFiles
	}
	found, err := file.FindWritten(s.paths, v1alpha1.Group, store.ClusterSets.Kind())
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf(`there is no ClusterSet in %s: write one, with a name for this cluster:

apiVersion: penstock.dev/v1alpha1
kind: ClusterSet
metadata: {name: gpus}
spec: {cluster: NAME}`, s.paths[0])
	}
	d := &document{Written: found[0]}
	raw, err := yaml.Marshal(d.Node)
	if err == nil {
		err = kyaml.UnmarshalStrict(raw, &d.set)
	}
	if err != nil {
		return nil, fmt.Errorf("%s:%d: ClusterSet %s cannot be read: %w; penstock status shows what to correct", d.Path,
			d.Line, d.Name, err)
	}
	return d, nil
}

func (d *document) spec() (*yaml.Node, error) {
	spec := file.Field(d.Node, "spec")
	if spec == nil || spec.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: ClusterSet %s: spec: it is missing; write spec.cluster, the name of this "+
			"cluster", d.Path, d.Line, d.Name)
	}
	return spec, nil
}

func (d *document) setMembers() error {
	spec, err := d.spec()
	if err != nil {
		return err
	}
	old := file.Field(spec, "members")
	if len(d.set.Spec.Members) == 0 {
		file.SetField(spec, "members", nil)
		return nil
	}
	list := &yaml.Node{Kind: yaml.SequenceNode}
	if old != nil && old.Kind == yaml.SequenceNode {
		list = old
	}
	written := map[string]*yaml.Node{}
	for _, n := range list.Content {
		if name := file.Field(n, "name"); name != nil {
			written[name.Value] = n
		}
	}
	list.Content = nil
	for _, m := range d.set.Spec.Members {
		n := written[m.Name]
		if n != nil && m.Peer == nil {
			list.Content = append(list.Content, n)
			continue
		}
		fresh, err := node(map[string]any{"name": m.Name, "peer": m.Peer})
		if err != nil {
			return err
		}
		allow, err := node(exportable(&m.Allow))
		if err != nil {
			return err
		}
		if n == nil {
			n = fresh
			file.SetField(n, "allow", allow)
		} else {
			file.SetField(n, "peer", file.Field(fresh, "peer"))
			for _, excluded := range []string{"kubeconfig", "clusterProfile"} {
				file.SetField(n, excluded, nil)
			}
			setExportable(n, allow)
		}
		list.Content = append(list.Content, n)
	}
	if filepath.Ext(d.Path) != ".json" {
		spec.Style &^= yaml.FlowStyle
		list.Style &^= yaml.FlowStyle
	}
	file.SetField(spec, "members", list)
	return nil
}

func exportable(a *v1alpha1.ClusterSetAllow) map[string]any {
	out := map[string]any{}
	if len(a.Pools) > 0 {
		out["pools"] = a.Pools
	}
	if len(a.Namespaces) > 0 || len(a.Pools) == 0 {
		out["namespaces"] = append([]string{}, a.Namespaces...)
	}
	return out
}

func setExportable(member, fresh *yaml.Node) {
	allow := file.Field(member, "allow")
	if allow == nil {
		if len(values(file.Field(fresh, "namespaces")))+len(values(file.Field(fresh, "pools"))) > 0 {
			file.SetField(member, "allow", fresh)
		}
		return
	}
	for _, field := range []string{"namespaces", "pools"} {
		if old, now := values(file.Field(allow, field)), file.Field(fresh, field); !slices.Equal(old, values(now)) {
			file.SetField(allow, field, now)
		}
	}
}

func values(list *yaml.Node) (out []string) {
	if list != nil {
		for _, n := range list.Content {
			out = append(out, n.Value)
		}
	}
	return out
}

func (d *document) setDraining(draining bool) error {
	spec, err := d.spec()
	if err != nil {
		return err
	}
	d.set.Spec.Draining = draining
	if !draining {
		file.SetField(spec, "draining", nil)
		return nil
	}
	file.SetField(spec, "draining", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
	return nil
}

func (d *document) now() *v1alpha1.ClusterSetSpec { return &d.set.Spec }

func (d *document) place() (object, written string) {
	return fmt.Sprintf("%s:%d: ClusterSet %s", d.Path, d.Line, d.Name), d.Path
}

func (d *document) check(bool, bool) error { return nil }

func (d *document) change(_ context.Context, draining, leave bool) error {
	if leave {
		d.set.Spec.Members = nil
		if err := d.setMembers(); err != nil {
			return err
		}
	}
	if err := d.setDraining(draining); err != nil {
		return err
	}
	return d.Save()
}

func node(v any) (*yaml.Node, error) {
	raw, err := kyaml.Marshal(v)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	return doc.Content[0], nil
}

func (s *files) ownMember() (string, error) {
	dir, err := s.stateDir()
	if err != nil {
		return "", err
	}
	return set.OwnMember(dir)
}

func (a *target) clusterStatus(ctx context.Context) (status set.Status, err error) {
	at, err := a.running(ctx)
	if err != nil {
		return status, err
	}
	err = at.get(ctx, "/clusters", &status)
	return status, err
}

func (r running) hub(ctx context.Context) *set.Status {
	var status set.Status
	if err := r.get(ctx, "/clusters", &status); err != nil || !status.Hub {
		return nil
	}
	return &status
}

func hubsFolder(manager *set.Status) string {
	return fmt.Sprintf("%s is a hub, which exports and imports no pool: its page /members (at its --admin, or its "+
		"--http on a loopback address) and its metrics penstock_hub_* show its members and their problems",
		cmp.Or(manager.Cluster, "the running process"))
}
