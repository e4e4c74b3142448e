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
			Name: fmt.Sprintf("%d-%s", i, strings.Repeat("ö", 80)), RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000,
			EndpointPicker: &inferenceapi.EndpointPickerImport{Name: strings.Repeat("é", 600), Service: inferenceapi.ServiceImports{{Addresses: []string{"192.0.2.1"}, Ports: []inferenceapi.Port{{Number: 9002}}}}},
			Conditions:     []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.NewTime(time.Unix(1000, 0))}},
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
			if len(c.Message) > 32<<10 || !json.Valid([]byte(`"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(c.Message)+`"`)) {
				t.Errorf("a message of %d bytes", len(c.Message))
			}
		}
		conditions = append([]metav1.Condition{{Type: "Accepted"}}, conditions...)
		if diff := cmp.Diff(clusters(n), inferenceapi.Carried(conditions)); diff != "" {
			t.Errorf("%d clusters in %d conditions (-want +got):\n%s", n, len(conditions), diff)
		}
	}
	if _, err := inferenceapi.Carry(clusters(200), 1, metav1.Time{}); err == nil || !strings.Contains(err.Error(), "apply the CRD") {
		t.Errorf("more than conditions have room for: %v", err)
	}
}

func TestCarried_WhatNoCRDAcceptsIsNotRead(t *testing.T) {
	const good = `{"name": "a", "routingMode": "EndpointMode", "targetPortNumber": 8000}`
	for _, text := range []string{
		"", "[", "{}", "[" + good + "," + good + "]", "[" + strings.Replace(good, "8000", "80000", 1) + "]", "[" + strings.Replace(good, "EndpointMode", "Other", 1) + "]",
		`[{"name": "a", "routingMode": "EndpointMode"}]`, `[{"name": "a", "routingMode": "ParentMode", "weight": -1}]`, `[{"routingMode": "ParentMode"}]`,
		`[{"name": "a", "routingMode": "ParentMode", "parents": [{"service": [{"ports": [{"number": 0}]}]}]}]`,
	} {
		if got := inferenceapi.Carried([]metav1.Condition{{Type: inferenceapi.ClustersCondition, Message: text}}); got != nil {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
	if got := inferenceapi.Carried([]metav1.Condition{{Type: inferenceapi.ClustersCondition, Message: "[" + good + "]"}}); len(got) != 1 {
		t.Errorf("%s is read as %+v", good, got)
	}
}

func FuzzCarried_ReadsOnlyPortsAndNamesThatExist(f *testing.F) {
	f.Add(`[{"name": "a", "routingMode": "EndpointMode", "targetPorts": [{"number": 8000}], "endpointPicker": {"service": [{"addresses": ["192.0.2.1"], "ports": [{"number": 9002}]}]}}]`)
	f.Add(`[{"name": "a", "routingMode": "ParentMode", "parents": [{"service": [{"ports": [{"number": 80}]}]}]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range inferenceapi.Carried([]metav1.Condition{{Type: inferenceapi.ClustersCondition, Message: text}}) {
			if c.Name == "" || len(c.Endpoints) > 0 || c.TargetPortNumber < 0 || c.TargetPortNumber > 65535 {
				t.Errorf("%s is read as %+v", text, c)
			}
			for _, p := range c.TargetPorts {
				if p.Number < 1 || p.Number > 65535 {
					t.Errorf("%s is read as %+v", text, c)
				}
			}
		}
	})
}
