package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// Two processes look up a name at different times, and must share the result. Otherwise, for half a
// minute, one process's picker picks an address that an Envoy of the other process lacks.
func TestHostname_ProcessesHaveOneAnswer(t *testing.T) {
	p := startPair(t, true, func(o *options) { o.Soak = time.Minute }) // with Soak, the pair has a DNS server
	p.flows(40)
	has := func(address string) func() error {
		return func() error {
			got, err := dump(t.Context(), p.edges[0].admin)
			if err != nil {
				return err
			}
			for _, text := range got {
				if strings.Contains(text, `"`+address+`"`) {
					return nil
				}
			}
			return fmt.Errorf("endpoints: got %v, want %s", got, address)
		}
	}
	former := namedAddresses[p.named%2]
	poll.NoError(t, "Envoy has the endpoints of a name", limit, has(former))
	served, other := p.planes[0], p.planes[1]
	if served.serves() != nil {
		served, other = other, served
	}
	p.must(served.serves())
	p.resolve()
	p.note("the name has another address, which %s looks up as it starts", other.name)
	p.must(other.Stop(10 * time.Second))
	p.must(other.start(p.Dir))
	poll.Until(t, "it is answered", func() bool { return p.dns.Queries() >= 2 }) // one query for IPv4 and one for IPv6
	// the process in served must not look up the name itself
	p.dns.Drop()
	p.must(other.ready(t.Context()))
	poll.NoError(t, "the Envoy of the other process has the new address", limit, has(namedAddresses[p.named%2]))
	p.must(served.serves())
	p.flows(40)
}
