package features

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// status and penstock translate have a finding for a pool that is not exported, because there is no
// ClusterSet or its annotations are invalid.
func TestExport_AnnotationsWithoutEffectAreFindings(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	alone := "InferencePool default/chat metadata.annotations[inference.networking.x-k8s.io/export]: " +
		"no other cluster imports the pool"
	s.up("exported.yaml", with("mistaken"))
	for _, want := range []string{
		alone,
		`default/value metadata.annotations[inference.networking.x-k8s.io/export]: "everywhere" is not supported`,
		"default/group metadata.annotations[inference.networking.k8s.io/export]: a pool has no annotation of this name",
	} {
		s.reports(want)
		if got := s.translated(); !strings.Contains(got, want) {
			t.Errorf("translate prints\n%s\nwant %q", got, want)
		}
	}
	s.write("exported.yaml", with("mistaken", "set"))
	const member = `default/value metadata.annotations[penstock.dev/export-to]: "west" is no member of the ClusterSet`
	s.reports(member)
	if got := s.translated(); !strings.Contains(got, member) || strings.Contains(got, alone) {
		t.Errorf("with a ClusterSet translate prints\n%s\nwant %q, and not %q", got, member, alone)
	}
	if got := s.status(); strings.Contains(got, alone) {
		t.Errorf("with a ClusterSet status prints\n%s\nwant it without %q", got, alone)
	}
}

func (s *site) translated() string {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), binary, "translate", "-f", s.Files)
	var findings bytes.Buffer
	cmd.Stderr = &findings
	_, _ = cmd.Output() // exit status 1: there are findings
	return findings.String()
}
