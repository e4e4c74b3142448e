package principals

import (
	"errors"
	"testing"
)

// The rig must detect harm. Otherwise the other tests would prove nothing.
func TestPrincipals_HarmIsFound(t *testing.T) {
	r := start(t, nil)
	if r.unchanged("nothing"); t.Failed() {
		return
	}
	r.settle("harm.yaml", `apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: victim, namespace: victim}
spec: {targetRef: {name: victim}, spill: [{name: nowhere}]}
`)
	if r.changed() == "" {
		t.Error("a policy of the victim's pool, with a spill target that does not exist, changes nothing")
	}
	r.end()
	r.server.Close()
	r.Eventually("a request fails", func() error {
		if r.askVictim("/service", "") == nil {
			return errors.New("the answer is 200")
		}
		return nil
	})
}
