package picker

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/zmtp"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestLoadStat_PicksGoByWhatTheServerPublishes(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var publisher zmtp.Publisher
	go func() { _ = publisher.Serve(t.Context(), listener) }()
	port := netip.MustParseAddrPort(listener.Addr().String()).Port()
	p := runPicker(t, Config{})
	pool := Pool{ID: poolID("ns/pool"), LoadPort: port, Metrics: endpoint.Metrics{Engine: endpoint.SGLang},
		Endpoints: []endpoint.Spec{{Addr: netip.MustParseAddrPort("127.0.0.1:1")}}}
	if err := p.SetPools([]Pool{pool}); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the picker subscribes", func() bool { return publisher.Subscribers() == 1 })
	stat, err := msgpack.Marshal([]any{"LoadStat", 3, 7, 2048, 8192, 0})
	if err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the load arrives, although there is no page", func() bool {
		publisher.Send([]byte("load"), binary.BigEndian.AppendUint64(nil, 1), stat)
		s := p.pool("ns/pool").snapshot.Endpoints[0].State()
		return s.Fresh && s.Queue == 7 && s.Running == 3 && s.KV == 0.25
	})
	pool.LoadPort = 0
	if err := p.Update(pool); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the picker subscribes no more", func() bool { return publisher.Subscribers() == 0 })
}
