package kube_test

import (
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

type rig struct{ *kubetest.Rig }

func begin(t *testing.T, prepare func(*kubetest.Server)) *rig {
	t.Helper()
	return &rig{kubetest.Follow(t, prepare)}
}

func (r *rig) synced() *rig {
	r.Helper()
	r.Synced()
	return r
}

func (r *rig) want(demands []kube.Demand) {
	r.Helper()
	for i, read := range r.Source.Want(demands, nil) {
		select {
		case <-read:
		case <-time.After(poll.Limit):
			r.Fatalf("%v is not read", demands[i])
		}
	}
	r.flush()
}

func (r *rig) park() {
	r.Helper()
	r.Source.Park()
	r.flush()
}

func (r *rig) flush() {
	r.Helper()
	if err := r.Source.Flush(); err != nil {
		r.Fatal(err)
	}
}
