//go:build lab && linux

package members

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/penstock-project/penstock/conformance/lab/image"
	"github.com/penstock-project/penstock/conformance/lab/installed"
	"github.com/penstock-project/penstock/conformance/promises/process"
)

// shifted is the image of a test build of penstock. A file in the build's pod has the offset of its
// clock.
const shifted = "ghcr.io/penstock-project/penstock:faults"

// A process that starts a day ahead and a process a day behind trust each other, and exports
// arrive. The two clusters change to another build and back, one after the other, so that some
// streams connect different builds.
func TestClusterSet_ClocksDaysApartLoseNoRequest(t *testing.T) {
	dir, err := os.MkdirTemp("", "clocks")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binary, err := process.Penstock(t.Context(), dir, "-tags", "faults")
	if err == nil {
		err = running.Load(image.Image{Name: shifted, Program: binary, Path: "/usr/local/bin/penstock"})
	}
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, "epp") // Penstock is the picker of chat, and is replaced and killed
	restoreEast := s.east.runs(shifted, "/run/penstock/clock")
	s.east.shift(24 * time.Hour)
	s.east.kill()
	restoreWest := s.west.runs(shifted, "/run/penstock/clock")
	s.west.shift(-24 * time.Hour)
	s.west.kill()
	s.ready("east", "north")
	s.east.annotate("export", "null")
	s.ready("north")
	s.load.idles("east")
	s.east.annotate("export", `"ClusterSet"`)
	s.ready("east", "north")
	restoreWest()
	restoreEast()
	s.ends()
}

// before is a commit that stands for an earlier release until there is one. At this commit, members
// behind hubs did not yet use each other's certificates.
const (
	before      = "0b3ed530"
	beforeImage = "ghcr.io/penstock-project/penstock:before"
)

// Members of two releases serve each other's requests: the exporter has the earlier release, then
// the importer has it, and then all are upgraded.
func TestClusterSet_TwoReleasesOnOneStreamLoseNoRequest(t *testing.T) {
	dir, err := os.MkdirTemp("", "before")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binary, err := process.Earlier(t.Context(), dir, before)
	if err == nil {
		err = running.Load(image.Image{Name: beforeImage, Program: binary, Path: "/usr/local/bin/penstock"})
	}
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, "epp") // Penstock is the picker of chat, and is replaced and killed
	exchange := func(what string) {
		t.Helper()
		s.east.annotate("export", "null")
		s.ready("north")
		s.load.idles("east")
		s.east.annotate("export", `"ClusterSet"`)
		s.ready("east", "north")
		t.Log(what)
	}
	restoreEast := s.east.runs(beforeImage, "")
	s.ready("east", "north")
	exchange("the exporter has the earlier release")
	restoreWest := s.west.runs(beforeImage, "")
	exchange("the exporter and the importer have it")
	restoreEast()
	s.ready("east", "north")
	exchange("the importer has it")
	restoreWest()
	exchange("all have this one")
	s.ends()
}

// runs makes Penstock run an image. clock is the file with the clock's offset; "" means no such
// file. restore undoes the change.
func (c *cluster) runs(image, clock string) (restore func()) {
	c.Helper()
	d, err := c.AppsV1().Deployments(installed.System).Get(c.Context(), "penstock", metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	before, err := json.Marshal(d.Spec.Template.Spec.Containers[0])
	if err != nil {
		c.Fatal(err)
	}
	patch := func(text string) {
		c.Helper()
		if _, err := c.AppsV1().Deployments(installed.System).Patch(c.Context(), "penstock", types.JSONPatchType,
			[]byte(text), metav1.PatchOptions{}); err != nil {
			c.Fatal(err)
		}
		c.RolledOut(installed.System, "penstock")
	}
	changes := fmt.Sprintf(`{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": %q}`, image)
	if clock != "" {
		changes += fmt.Sprintf(
			`, {"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": {"name": "PENSTOCK_FAULT_CLOCK", "value": %q}}`, clock)
	}
	patch("[" + changes + "]")
	return func() {
		patch(fmt.Sprintf(`[{"op": "replace", "path": "/spec/template/spec/containers/0", "value": %s}]`, before))
	}
}

func (c *cluster) shift(offset time.Duration) {
	c.Helper()
	list, err := c.Processes(c.Context())
	if err != nil || len(list) == 0 {
		c.Fatalf("processes of penstock: got %v, %d, want some", err, len(list))
	}
	for _, pod := range list {
		path := filepath.Join("/proc", strconv.Itoa(c.Process(pod, "serve")), "root", "run", "penstock", "clock")
		if err := errors.Join(os.WriteFile(path+".new", []byte(offset.String()), 0o644),
			os.Rename(path+".new", path)); err != nil {
			c.Fatal(err)
		}
	}
}
