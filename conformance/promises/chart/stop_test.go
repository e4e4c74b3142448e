package chart

import (
	"os"
	"regexp"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// The grace period exceeds --stop-timeout. If the kubelet killed a process earlier, request counts
// would be lost, and the Lease would stay until it expires.
func TestChart_GracePeriodExceedsStopTimeout(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/penstock-serve.md")
	if err != nil {
		t.Fatal(err)
	}
	flag := regexp.MustCompile("`--stop-timeout` \\| duration \\| `(\\w+)`").FindSubmatch(page)
	if flag == nil {
		t.Fatal("the reference of penstock serve has no --stop-timeout")
	}
	stop, err := time.ParseDuration(string(flag[1]))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, d := range render(t, nil) {
		var o appsv1.Deployment
		if err := yaml.Unmarshal([]byte(d.text), &o); err != nil || o.Kind != "Deployment" || o.Name != "penstock" {
			continue
		}
		found = true
		grace := 30 * time.Second // Kubernetes' default
		if s := o.Spec.Template.Spec.TerminationGracePeriodSeconds; s != nil {
			grace = time.Duration(*s) * time.Second
		}
		if least := stop + 10*time.Second; grace < least {
			t.Errorf("the grace period is %s, want at least %s", grace, least)
		}
	}
	if !found {
		t.Error("the chart has no Deployment penstock")
	}
}
