package inferenceapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClustersCondition is the type of the first condition that replaces status.clusters. The
// conditions are used if the installed CRD of InferencePoolImport is upstream's, because it lacks
// the field. Their concatenated messages are the field's JSON.
const ClustersCondition = "penstock.dev/Clusters"

const (
	carriedReason  = "CRDOfAnotherProject"
	longestMessage = 32 << 10 // bytes of a condition's message; the schema counts characters
	mostCarried    = 4        // a controller may have 8 conditions
)

// MaxClusters is the maximum number of exporting clusters of an import.
const MaxClusters = 64

// Room is the maximum size in bytes of the JSON form of an import's clusters in status.clusters.
// RoomCarried is the maximum in the conditions that replace the field.
const (
	Room        = 1 << 20 // the API server's database accepts 1.5 MB
	RoomCarried = mostCarried * longestMessage
)

// Fit returns the clusters for which an import has room, in their order, and the reason for each
// cluster that is left out. It leaves out the largest clusters first, so that as few as possible
// are left out. If more than MaxClusters remain, the clusters named in stay take precedence.
func Fit(clusters []ImportedCluster, room int, stay []string) (kept []ImportedCluster, left map[string]string) {
	sizes, total := make([]int, len(clusters)), len("[]")-len(",")
	order := make([]int, len(clusters))
	for i := range clusters {
		raw, _ := json.Marshal(clusters[i]) // no field fails to marshal
		order[i], sizes[i] = i, len(raw)+len(",")
		total += sizes[i]
	}
	left = map[string]string{}
	leave := func(i int, why string) {
		left[clusters[i].Name], total, sizes[i] = why, total-sizes[i], 0
	}
	slices.SortStableFunc(order, func(a, b int) int { return sizes[b] - sizes[a] })
	for _, i := range order {
		if total > room {
			leave(i,
				fmt.Sprintf("it has %d bytes, the most of the clusters of the import, which has room for %d bytes",
					sizes[i], room))
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		stays := func(i int) int { return min(slices.Index(stay, clusters[i].Name), 0) }
		return cmp.Or(stays(a)-stays(b), b-a)
	})
	for _, i := range order {
		if len(clusters)-len(left) > MaxClusters && sizes[i] > 0 {
			leave(i, fmt.Sprintf("an import has %d clusters at most", MaxClusters))
		}
	}
	for i := range clusters {
		if sizes[i] > 0 {
			kept = append(kept, clusters[i])
		}
	}
	return kept, left
}

func Carry(clusters []ImportedCluster, generation int64, now metav1.Time) (out []metav1.Condition, err error) {
	raw, err := json.Marshal(clusters)
	if err != nil {
		return nil, err
	}
	text := string(raw)
	for n := 1; len(text) > 0; n++ {
		if n > mostCarried {
			return nil,
				fmt.Errorf(
					"status.clusters has %d bytes, and the conditions that stand in for it have room for %d: apply "+
						"the CRD of Penstock's chart", len(raw), RoomCarried)
		}
		end := min(len(text), longestMessage)
		for end < len(text) && text[end]&0xc0 == 0x80 { // inside a character
			end--
		}
		out = append(out, metav1.Condition{
			Type: carried(n), Status: metav1.ConditionTrue, Reason: carriedReason, Message: text[:end],
			ObservedGeneration: generation, LastTransitionTime: now,
		})
		text = text[end:]
	}
	return out, nil
}

func carried(n int) string {
	if n == 1 {
		return ClustersCondition
	}
	return fmt.Sprintf("%s-%d", ClustersCondition, n)
}

// Carried returns the clusters in conditions. Each cluster is decoded and validated separately;
// invalid clusters are skipped. If two clusters have the same name, the first is used.
func Carried(conditions []metav1.Condition) (out []ImportedCluster) {
	var text strings.Builder
	for n := 1; n <= mostCarried; n++ {
		i := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == carried(n) })
		if i < 0 {
			break
		}
		text.WriteString(conditions[i].Message)
	}
	var list []json.RawMessage
	if text.Len() == 0 || json.Unmarshal([]byte(text.String()), &list) != nil {
		return nil
	}
	names := map[string]bool{}
	for _, raw := range list {
		var c ImportedCluster
		if json.Unmarshal(raw, &c) != nil || names[c.Name] || len(c.Endpoints) > 0 || len(out) == MaxClusters {
			continue
		}
		if _, bad := c.Violation(); bad == nil {
			names[c.Name] = true
			out = append(out, c)
		}
	}
	return out
}
