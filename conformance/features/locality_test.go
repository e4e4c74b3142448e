package features

import (
	"fmt"
	"net/http"
	"testing"
)

// Requests prefer clusters of the zone, then of the region, then others. They never leave the
// regions that a policy allows.
func TestLocality_NearClustersServeFirst(t *testing.T) {
	t.Parallel()
	s, clusters := newSite(t), map[string]*cluster{}
	for _, name := range []string{"across", "beside", "near", "nowhere"} {
		clusters[name] = s.cluster(name)
	}
	s.up("locality.yaml")
	// serve polls until exactly these clusters serve some of the requests; "" is an error response.
	serve := func(what string, names ...string) {
		t.Helper()
		s.Eventually(what, func() error {
			by := map[string]int{}
			for range 20 {
				got, err := s.ask("/far", question)
				if err != nil {
					return err
				}
				name := got.by()
				if got.status != http.StatusOK {
					name = ""
				}
				by[name]++
			}
			sum := 0
			for _, name := range names {
				if by[name] == 0 {
					return fmt.Errorf("requests by server: got %v, want some at each; status:\n%s", by, s.status())
				}
				sum += by[name]
			}
			return because(sum == 20, by)
		})
	}
	serve("the zone serves", "near")
	clusters["near"].server.Close()
	serve("without it the region does", "beside")
	clusters["beside"].set(full)
	serve("without that, the rest", "across", "nowhere")
	within := func(region string) {
		s.write("locality.yaml", swap("policy: Locality", "policy: Locality, within: {regions: ["+region+"]}"))
	}
	within("eu")
	serve("within the region, no other cluster", "")
	clusters["beside"].reset()
	serve("within the region, what is there", "beside")
	within("mars")
	s.reports("it leaves no cluster of InferencePoolImport default/far")
	if asked, _ := clusters["nowhere"].counts(); asked == 0 {
		t.Error("a cluster without a region is never asked")
	}
}
