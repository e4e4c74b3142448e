//go:build lab && linux

package promises

import (
	"errors"

	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/conformance/promises/attacks"
	"github.com/penstock-project/penstock/xds/resource"
)

func (p place) reviews() (n int) {
	for _, r := range p.requests() {
		if r.ObjectRef.Resource == "tokenreviews" {
			n++
		}
	}
	return n
}

// A pod that sends forged tokens does not load the API server, and proxies' tokens are still
// accepted.
func junkTokens(p place) {
	p.apply(chat + plainGateway)
	p.programmed("gw")
	address := p.processes()[0].Status.PodIP + ":18000"
	conn, err := grpc.NewClient(address, p.as("")...)
	if err != nil {
		p.Fatal(err)
	}
	defer conn.Close()
	mine := p.token("gw-penstock", "penstock.dev")
	if _, err := p.ask(address, mine, resource.Cluster); err != nil {
		p.Fatal(err)
	}
	before := p.reviews()
	if err := attacks.JunkTokens(p.Context(), conn, 1000); err != nil {
		p.Error(err)
	}
	if n := p.reviews() - before; n > 50 { // other tests cause reviews, too
		p.Errorf("the API server reviewed %d of 1,000 tokens, want at most 50", n)
	}
	if _, err := p.ask(address, mine, resource.Cluster); err != nil {
		p.Error(errors.Join(errors.New("a proxy's token does not count any more"), err))
	}
}
