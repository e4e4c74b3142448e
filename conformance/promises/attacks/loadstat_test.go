package attacks

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/parties"
)

func loadStat(running, waiting byte) []byte {
	return append(append([]byte{0x96, 0xa8}, "LoadStat"...), running, waiting, 0, 100, 0)
}

// loadAttacks returns the attacks of eventAttacks that do not depend on events, and invalid
// messages with loads.
func loadAttacks() map[string]func(context.Context, parties.KVPublisher) error {
	attacks := eventAttacks("")
	for _, name := range []string{"a flood of blocks", "events of another server", "topics of 1 MiB"} {
		delete(attacks, name)
	}
	for name, message := range map[string][]byte{
		"loads below zero": append(append([]byte{0x96, 0xa8}, "LoadStat"...), 0xff, 0xff, 0xff, 0xff, 0xff),
		"loads beyond an integer": append(append([]byte{0x96, 0xa8}, "LoadStat"...),
			bytes.Repeat(append([]byte{0xcf}, bytes.Repeat([]byte{0xff}, 8)...), 5)...),
		"a list of 4 billion": append([]byte{0xdd, 0xff, 0xff, 0xff, 0xff, 0xa8}, "LoadStat"...),
		"a load of 4 MiB":     append(loadStat(0, 0), make([]byte, 4<<20)...),
	} {
		attacks[name] = func(ctx context.Context, p parties.KVPublisher) error {
			err := p.Greet()
			for err == nil && ctx.Err() == nil {
				err = p.Publish("load", 1, message)
				time.Sleep(10 * time.Millisecond)
			}
			return err
		}
	}
	return attacks
}

// honestLoads publishes repeatedly that 3 requests run and 7 wait.
func honestLoads(ctx context.Context, p parties.KVPublisher) error {
	err := p.Greet()
	for seq := uint64(1); err == nil && ctx.Err() == nil; seq++ {
		_, err = p.Write(
			bytes.Join([][]byte{parties.Frame(1, []byte("load")),
				parties.Frame(1, binary.BigEndian.AppendUint64(nil, seq)), parties.Frame(0, loadStat(3, 7))},
				nil))
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

func publishes(t *testing.T, address string, serve func(context.Context, parties.KVPublisher) error) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with ctx
				_ = serve(t.Context(), parties.KVPublisher{Conn: conn})
				_ = conn.Close()
			}()
		}
	}()
}

// A pool has one honest model server that publishes its load, and for each attack a hostile server.
// All attack at once.
func TestLoadStat_HostilePublishersHarmNoOtherServer(t *testing.T) {
	s := prepare(t, nil)
	attacks := loadAttacks()
	names := slices.Sorted(maps.Keys(attacks))
	publisher := s.Port()
	servers, objects := s.eventServers(1+len(names), "")
	objects = strings.Replace(objects, "picker: {kvEvents: {}}",
		fmt.Sprintf("picker: {metrics: {engine: sglang, loadStatPort: %d}}", publisher), 1)
	for i := range servers {
		serve := honestLoads
		if i > 0 {
			serve = attacks[names[i-1]]
		}
		publishes(t, fmt.Sprintf("127.0.0.%d:%d", i+1, publisher), serve)
	}
	s.Write("events.yaml", objects)
	s.serve()
	s.attach()
	s.Eventually("the Gateway serves", func() error { return s.ask(http.MethodGet, "/v1/models", "") })
	traffic := s.traffic()
	before, peak := s.rss(s.penstock), s.peak(s.penstock)
	state := func() (queue, running int, fresh bool) {
		text, err := s.page("/debug/pool?pool=default/events")
		if err != nil {
			t.Fatal(err)
		}
		var e struct {
			Verdicts []struct {
				Address string
				State   struct {
					Queue, Running int
					Fresh          bool
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		for _, v := range e.Verdicts {
			if v.Address == fmt.Sprintf("%s:%d", servers[0].address, servers[0].port) {
				return v.State.Queue, v.State.Running, v.State.Fresh
			}
		}
		return 0, 0, false
	}
	s.Eventually("the honest server's load is read", func() error {
		s.served(promptTokens(0)) // the picker reads loads only of pools in use
		if queue, running, fresh := state(); queue != 7 || running != 3 || !fresh {
			return fmt.Errorf("%d wait, %d run, fresh: %v, want 7, 3, true", queue, running, fresh)
		}
		return nil
	})
	for began := time.Now(); time.Since(began) < 3*time.Second; {
		s.served(promptTokens(0))
		if queue, running, fresh := state(); queue != 7 || running != 3 || !fresh {
			t.Fatalf("%v after the attack began, the honest server has %d waiting, %d running, fresh: %v, want 7, 3, "+
				"true", time.Since(began), queue, running, fresh)
		}
	}
	traffic.end()
	if most := peak(); most > before+128 {
		t.Errorf("penstock had %.0f MiB before, and %.0f MiB at the peak, want at most %.0f",
			before, most, before+128)
	}
}
