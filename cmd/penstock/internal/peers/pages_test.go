package peers

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestPeers_PageThatOneProcessReadsIsKnownToAll(t *testing.T) {
	var reads atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if reads.Add(1) > 1 { // another process has read the page
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		fmt.Fprintln(w,
			"vllm:num_requests_waiting "+
				"9\nvllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"sql\",waiting_lora_adapters=\"\"} 1")
	}))
	defer server.Close()
	pickers, _, _ := startPools(t, 2, picker.Pool{
		ID: objectid.MustParseTarget("ns/pool"), Strategy: "load",
		Endpoints: []endpoint.Spec{{Addr: netip.MustParseAddrPort(server.Listener.Addr().String())}},
	})
	pick(t, pickers[0])
	poll.Until(t, "the page is read", func() bool { return reads.Load() > 0 })
	poll.Until(t, "it reaches a process that had no pick", func() bool {
		s := pickers[1].Explain("ns/pool", nil).Verdicts[0].State
		return s.Queue == 9 && s.Adapters != nil && s.Adapters.Has("sql")
	})
}
