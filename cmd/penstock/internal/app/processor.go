package app

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

// Processor is the external processor of pools whose PoolPolicy names none.
type Processor struct {
	URL   string // http or https; "" for none
	Route bool   // the processor chooses endpoints unless the policy or the request decides otherwise
}

func (p Processor) object() store.Op {
	return store.ProcessorDefaults.Put(&store.ProcessorDefault{
		ObjectMeta: metav1.ObjectMeta{Name: store.OwnProcessor}, URL: p.URL, Route: p.Route,
	})
}
