package inferenceapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// clusters are some exporting clusters. Each name has characters of several bytes.
func clusters(n int) (out []inferenceapi.ImportedCluster) {
	for i := range n {
		out = append(out, inferenceapi.ImportedCluster{
			Name: fmt.Sprintf("%d-%s", i, strings.Repeat("ö", 80)), RoutingMode: inferenceapi.EndpointMode,
			TargetPortNumber: 8000,
			EndpointPicker: &inferenceapi.EndpointPickerImport{
				Name: strings.Repeat("é", 250), Service: inferenceapi.ServiceImports{
					{Addresses: []string{"192.0.2.1"}, Ports: []inferenceapi.Port{{Number: 9002}}},
				},
			},
			Conditions: []metav1.Condition{
				{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready",
					LastTransitionTime: metav1.NewTime(time.Unix(1000, 0))},
			},
		})
	}
	return out
}

func TestCarried_ClustersComeBackAsTheyWere(t *testing.T) {
	for _, n := range []int{1, 5, 60} {
		conditions, err := inferenceapi.Carry(clusters(n), 1, metav1.NewTime(time.Unix(1000, 0)))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range conditions {
			if len(c.Message) > 32<<10 ||
				!json.Valid([]byte(`"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(c.Message)+`"`)) {
				t.Errorf("a message of %d bytes, want at most 32 KiB that need no escapes in JSON", len(c.Message))
			}
		}
		conditions = append([]metav1.Condition{{Type: "Accepted"}}, conditions...)
		if diff := cmp.Diff(clusters(n), inferenceapi.Carried(conditions)); diff != "" {
			t.Errorf("%d clusters in %d conditions (-want +got):\n%s", n, len(conditions), diff)
		}
	}
	if _, err := inferenceapi.Carry(clusters(200), 1, metav1.Time{}); err == nil ||
		!strings.Contains(err.Error(), "apply the CRD") {
		t.Errorf(`more than conditions have room for: got %v, want an error with "apply the CRD"`, err)
	}
}

// One invalid entry, which a member of a hub may cause, must not drop the other clusters of the
// import.
func TestCarried_WhatNoCRDAcceptsIsNotRead(t *testing.T) {
	const good = `{"name": "a", "routingMode": "EndpointMode", "targetPortNumber": 8000}`
	for _, text := range []string{"", "[", "{}", "[" + good} {
		if got := inferenceapi.Carried(carrying(text)); got != nil {
			t.Errorf("%s is read as %+v, want nothing", text, got)
		}
	}
	for _, bad := range []string{
		good, "null", `"b"`, strings.Replace(good, "8000", "80000", 1),
		strings.Replace(good, "EndpointMode", "Other", 1), `{"name": 7}`,
		`{"name": "b", "routingMode": "EndpointMode"}`, `{"name": "b", "routingMode": "ParentMode", "weight": -1}`,
		`{"routingMode": "ParentMode"}`,
		`{"name": "b", "routingMode": "ParentMode", "parents": [{"service": [{"ports": [{"number": 0}]}]}]}`,
		`{"name": "b", "routingMode": "ParentMode", "endpoints": [{"address": "192.0.2.1"}]}`,
		`{"name": "b", "routingMode": "ParentMode", "parents": [{"service": [{"addresses": ["` +
			strings.Repeat("a", 254) + `"]}]}]}`,
	} {
		got := inferenceapi.Carried(carrying("[" + good + "," + bad + "]"))
		if len(got) != 1 || got[0].Name != "a" {
			t.Errorf("beside %s: got %+v, want cluster a alone", bad, got)
		}
	}
}

func carrying(text string) []metav1.Condition {
	return []metav1.Condition{{Type: inferenceapi.ClustersCondition, Message: text}}
}

func TestFit_LargestClusterIsLeftOutFirst(t *testing.T) {
	list := clusters(5)
	list[3].PodCIDRs = []string{strings.Repeat("x", 64)}
	raw, _ := json.Marshal(list)
	kept, left := inferenceapi.Fit(list, len(raw), nil)
	if len(kept) != 5 || len(left) != 0 {
		t.Errorf("all have room: %d are kept and left out are %v, want 5 and none", len(kept), left)
	}
	kept, left = inferenceapi.Fit(list, len(raw)-1, nil)
	if len(kept) != 4 || left[list[3].Name] == "" {
		t.Errorf("kept are %d, and left out are %v; want 4, and %s left out", len(kept), left, list[3].Name)
	}
	if _, err := inferenceapi.Carry(kept, 1, metav1.Time{}); err != nil {
		t.Error(err)
	}
}

func TestFit_ClustersThatAnImportHasStay(t *testing.T) {
	list := clusters(inferenceapi.MaxClusters + 2)
	stay := []string{list[0].Name, list[len(list)-1].Name}
	kept, left := inferenceapi.Fit(list, inferenceapi.Room, stay)
	if len(kept) != inferenceapi.MaxClusters || left[list[len(list)-2].Name] == "" ||
		left[list[len(list)-3].Name] == "" {
		t.Errorf("kept are %d, and left out are %v; want %d, and the two before the last left out",
			len(kept), left, inferenceapi.MaxClusters)
	}
	if kept[0].Name != list[0].Name || kept[len(kept)-1].Name != list[len(list)-1].Name {
		t.Errorf("%s to %s, want %s and %s", kept[0].Name, kept[len(kept)-1].Name, list[0].Name, list[len(list)-1].Name)
	}
}

func FuzzCarried_ReadsOnlyPortsAndNamesThatExist(f *testing.F) {
	f.Add(
		`[{"name": "a", "routingMode": "EndpointMode", "targetPorts": [{"number": 8000}], "endpointPicker": {"service": [{"addresses": ["192.0.2.1"], "ports": [{"number": 9002}]}]}}]`)
	f.Add(`[{"name": "a", "routingMode": "ParentMode", "parents": [{"service": [{"ports": [{"number": 80}]}]}]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range inferenceapi.Carried(carrying(text)) {
			if c.Name == "" || len(c.Endpoints) > 0 || c.TargetPortNumber < 0 || c.TargetPortNumber > 65535 {
				t.Errorf("%s is read as %+v, want a name, no endpoints, and a port of 0 to 65535", text, c)
			}
			for _, p := range c.TargetPorts {
				if p.Number < 1 || p.Number > 65535 {
					t.Errorf("%s is read as %+v, want ports of 1 to 65535", text, c)
				}
			}
		}
	})
}
