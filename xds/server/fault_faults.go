//go:build faults

package server

func fault(r request) {
	if r.delta == nil || r.delta.counts[requestSubscribe] == 0 {
		return
	}
	for name := range r.delta.names(requestSubscribe) {
		if name == "penstock.dev/fault: panic" {
			panic("the fault that a subscription asks for")
		}
	}
}
