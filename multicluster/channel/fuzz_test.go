package channel

import (
	"context"
	"maps"
	"strconv"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// FuzzMirror_EqualsReference applies updates of three peers, some with undecodable values. The
// content of a Mirror must equal a reference implementation with maps. The sum of its Changes must
// give the same content.
func FuzzMirror_EqualsReference(f *testing.F) {
	f.Add([]byte("sa1b2.pa3.d.sa1."), uint8(0))
	f.Add([]byte("sa1b2.da.sb3.p-a.s."), uint8(1))
	f.Add([]byte("Sa1b2bx.Dsa1.D.p-b-a.Sc9."), uint8(1))
	f.Fuzz(func(t *testing.T, program []byte, kind uint8) {
		retention := []time.Duration{0, time.Hour}[kind%2]
		type value struct {
			n     int
			stale bool
		}
		peers, summed := map[string]map[string]value{}, map[string]map[string]int{}
		topic := New(Config{}).Topic("numbers")
		m := NewMirror(topic, MirrorConfig[int]{
			Decode:    func(value []byte) (int, error) { return strconv.Atoi(string(value)) },
			Retention: retention,
			Changed: func(changes []Change[int]) {
				for _, c := range changes {
					if summed[c.Peer] == nil {
						summed[c.Peer] = map[string]int{}
					}
					if summed[c.Peer][c.Key] = c.Value; c.Gone {
						delete(summed[c.Peer], c.Key)
					}
				}
			},
		})
		for _, u := range updates(program) {
			err := topic.deliver(t.Context(), u)
			mine := peers[u.Peer]
			if mine == nil {
				mine = map[string]value{}
				peers[u.Peer] = mine
			}
			if u.Disconnected {
				for key, v := range mine {
					if mine[key] = (value{v.n, true}); retention == 0 {
						delete(mine, key)
					}
				}
			}
			published, invalid := map[string]bool{}, false
			for _, it := range u.Items {
				published[it.Key] = true
				if n, err := strconv.Atoi(string(it.Value)); err == nil {
					mine[it.Key] = value{n, false}
				} else {
					invalid = true // the key's last decodable value stays
				}
			}
			maps.DeleteFunc(mine, func(key string, _ value) bool {
				return u.Snapshot && retention <= 0 && !published[key]
			})
			for _, key := range u.Retracted {
				delete(mine, key)
			}
			if (err != nil) != invalid {
				t.Errorf("got error %v, want one: %t", err, invalid)
			}
		}
		for _, peer := range []string{"0", "1", "2"} {
			want := map[string]int{}
			for key, v := range peers[peer] {
				want[key] = v.n
				if got, ok := m.Get(peer, key); !ok || got != v.n || !m.peers[peer][key].until.IsZero() != v.stale {
					t.Errorf("%s %s: %d, %v, want %+v", peer, key, got, ok, v)
				}
			}
			if got := summed[peer]; !maps.Equal(got, want) {
				t.Errorf("the changes of %s add up to %v, want %v", peer, got, want)
			}
			if len(m.peers[peer]) != len(want) {
				t.Errorf("%s has %d values, want %d", peer, len(m.peers[peer]), len(want))
			}
		}
	})
}

// updates parses a program into Updates. s begins a snapshot, p an update, and d a disconnection. A
// full stop ends each. Between them, a letter and a byte are an item, and a minus and a letter are
// a retraction. The peer is the update's number modulo three. A capital S, P or D selects the first
// peer.
func updates(program []byte) (out []Update) {
	u, open := Update{}, false
	for i := 0; i < len(program); i++ {
		b := program[i]
		switch {
		case !open:
			open = true
			u = Update{Peer: strconv.Itoa(len(out) % 3), Snapshot: b == 's' || b == 'S',
				Disconnected: b == 'd' || b == 'D'}
			if b >= 'A' && b <= 'Z' {
				u.Peer = "0"
			}
		case b == '.':
			open = false
			if u.Disconnected { // the channel sends nothing else with a disconnection
				u = Update{Peer: u.Peer, Disconnected: true}
			}
			out = append(out, u)
		case b == '-' && i+1 < len(program):
			i++
			u.Retracted = append(u.Retracted, string(program[i]))
		case i+1 < len(program):
			i++
			u.Items = append(u.Items, Item{Key: string(b), Value: []byte{program[i]}})
		}
	}
	return out
}

// FuzzChannel_HostileMessageIsAnError checks that no message of a peer panics, and that delivered
// items have keys and no negative times to live.
func FuzzChannel_HostileMessageIsAnError(f *testing.F) {
	for _, it := range []Item{{Key: "a", Value: []byte("1")}, {Key: "b", TTL: time.Second}, {}} {
		until := time.Time{}
		if it.TTL > 0 {
			until = time.Unix(1, 0)
		}
		resource := published{value: it.Value, expires: until}.encode(it.Key, time.Unix(0, 0))
		raw, err := proto.Marshal(&response{TypeUrl: "t", Nonce: "1", SystemVersionInfo: "other",
			RemovedResources: []string{"x"}, Resources: []*discoveryv3.Resource{resource}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	c := New(Config{OnPanic: func(_ string, value any, _ []byte) { panic(value) }})
	topic := c.Topic("t")
	var delivered []Update
	topic.Subscribe(func(_ context.Context, u Update) error {
		delivered = append(delivered, u)
		return nil
	})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var r response
		if proto.Unmarshal(raw, &r) != nil {
			return
		}
		delivered = nil
		_ = c.receive(t.Context(), &peer{address: "p", synced: map[string]bool{}}, &followed{topic: topic}, &r)
		if len(delivered) != 1 || len(delivered[0].Items) > len(r.GetResources()) {
			t.Fatalf("%d updates: %v, want 1 with at most %d items", len(delivered), delivered, len(r.GetResources()))
		}
		for _, it := range delivered[0].Items {
			if it.TTL < 0 {
				t.Errorf("a time to live of %v, want at least 0", it.TTL)
			}
		}
	})
}
