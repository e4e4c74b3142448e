package inferenceapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClustersCondition is the type of the conditions of a controller that have status.clusters where the installed CRD of InferencePoolImport, upstream's own,
// has no such field. Their messages, one after the other, are its JSON. So the permission to write the status is needed to write them.
const ClustersCondition = "penstock.dev/Clusters"

const (
	carriedReason   = "CRDOfAnotherProject"
	longestMessage  = 32 << 10 // of a condition, in bytes; the schema counts characters
	mostCarried     = 4        // of the 8 conditions that a controller may have
	mostClusters    = 64       // as in InferencePoolImportStatus
	mostClusterName = 253
)

// Carry returns the conditions that carry clusters.
func Carry(clusters []ImportedCluster, generation int64, now metav1.Time) (out []metav1.Condition, err error) {
	raw, err := json.Marshal(clusters)
	if err != nil {
		return nil, err
	}
	text := string(raw)
	for n := 1; len(text) > 0; n++ {
		if n > mostCarried {
			return nil, fmt.Errorf("status.clusters has %d bytes, and the conditions that stand in for it have room for %d: apply the CRD of Penstock's chart", len(raw), mostCarried*longestMessage)
		}
		end := min(len(text), longestMessage)
		for end < len(text) && text[end]&0xc0 == 0x80 { // within a character
			end--
		}
		out = append(out, metav1.Condition{
			Type: carried(n), Status: metav1.ConditionTrue, Reason: carriedReason, Message: text[:end], ObservedGeneration: generation, LastTransitionTime: now,
		})
		text = text[end:]
	}
	return out, nil
}

// carried is the type of the n-th condition.
func carried(n int) string {
	if n == 1 {
		return ClustersCondition
	}
	return fmt.Sprintf("%s-%d", ClustersCondition, n)
}

// Carried returns the clusters that conditions carry; none if they carry none, or what no CRD would have accepted.
func Carried(conditions []metav1.Condition) []ImportedCluster {
	var text strings.Builder
	for n := 1; n <= mostCarried; n++ {
		i := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == carried(n) })
		if i < 0 {
			break
		}
		text.WriteString(conditions[i].Message)
	}
	var out []ImportedCluster
	if text.Len() == 0 || json.Unmarshal([]byte(text.String()), &out) != nil || len(out) > mostClusters {
		return nil
	}
	names := map[string]bool{}
	for i := range out {
		if names[out[i].Name] || !out[i].valid() {
			return nil
		}
		names[out[i].Name] = true
	}
	return out
}

// valid checks what the schema does, as far as a reader depends on it.
func (c *ImportedCluster) valid() bool {
	port := func(n int32) bool { return n >= 1 && n <= 65535 }
	ports := func(list []Port) bool {
		return len(list) <= 16 && !slices.ContainsFunc(list, func(p Port) bool { return !port(p.Number) })
	}
	services := func(list ServiceImports) bool {
		return len(list) <= 16 && !slices.ContainsFunc(list, func(s ServiceImport) bool { return len(s.Addresses) > 64 || !ports(s.Ports) })
	}
	switch p := c.EndpointPicker; {
	case c.Name == "" || len(c.Name) > mostClusterName,
		c.RoutingMode != EndpointMode && c.RoutingMode != ParentMode,
		c.RoutingMode == EndpointMode && c.TargetPortNumber == 0 && len(c.TargetPorts) == 0,
		c.TargetPortNumber != 0 && !port(c.TargetPortNumber), !ports(c.TargetPorts) || len(c.TargetPorts) > 8,
		c.Weight != nil && (*c.Weight < 0 || *c.Weight > 1_000_000),
		c.FailureMode != "" && c.FailureMode != "FailOpen" && c.FailureMode != "FailClose",
		c.AppProtocol != "" && c.AppProtocol != "http" && c.AppProtocol != "kubernetes.io/h2c",
		len(c.Endpoints) > 0, len(c.PodCIDRs) > 64, len(c.Parents) > 16, len(c.Conditions) > 8,
		p != nil && (!services(p.Service) || p.Health != nil && !port(p.Health.Port) || p.Metrics != nil && !port(p.Metrics.Port) || len(p.Pool) > 317):
		return false
	}
	return !slices.ContainsFunc(c.Parents, func(p ParentImport) bool { return !services(p.Service) })
}
