package attacks

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/conformance/promises/parties"
)

func many(n int, item func(i int) *discoveryv3.Resource) []*discoveryv3.Resource {
	out := make([]*discoveryv3.Resource, n)
	for i := range out {
		out[i] = item(i)
	}
	return out
}

func again(v *parties.Subscriber, n int, topic string, items func(i int) []*discoveryv3.Resource) error {
	for i := range n {
		if err := v.Publish(topic, items(i)); err != nil {
			return err
		}
	}
	return nil
}

type attack struct {
	name   string
	logged string // text that Penstock logs; "" means that nothing is logged
	// do returns how the stream ended; nil means that the subscriber ended it.
	do func(to *parties.Subscriber) error
}

func hostileExports() []attack { return append(hostileMessages(), hostileParts()...) }

func hostileMessages() []attack {
	// empty encodes a message with a topic (type_url) and n empty items (resources).
	empty := func(topic string, n int) []byte {
		return slices.Concat([]byte{0x22, byte(len(topic))}, []byte(topic), bytes.Repeat([]byte{0x12, 0x00}, n))
	}
	return []attack{
		{"does not wait for acknowledgements", "came before the last one was acknowledged",
			func(v *parties.Subscriber) error {
				for i := range 300 {
					if err := v.Send("exports", append(many(20, func(n int) *discoveryv3.Resource {
						return parties.Item(fmt.Sprintf("evil/unasked-%d#%d", i, n), `{"epoch":1}`)
					}), parties.State(i))); err != nil {
						return err
					}
				}
				return nil
			}},
		{"messages of 26 million items", "message larger than max",
			func(v *parties.Subscriber) error { return v.SendMsg(empty("exports", 25<<20)) }},
		{"messages of a million items, on all topics", "too many items", func(v *parties.Subscriber) error {
			for _, topic := range []string{"loads", "wanted", "imports", "exports"} {
				if err := v.SendMsg(empty(topic, 1_000_000)); err != nil {
					return err
				}
			}
			return nil
		}},
		{"responses that never end", "responses that are not complete", func(v *parties.Subscriber) error {
			for part := 0; ; part++ {
				for topic, pool := range map[string]string{
					"loads": "east/evil/", "wanted": "east/evil/", "imports": "east/evil/", "exports": "evil/",
				} {
					r := &discoveryv3.DeltaDiscoveryResponse{
						TypeUrl: topic, SystemVersionInfo: "hostile", Nonce: fmt.Sprint("1/", part),
					}
					r.Resources = many(1000, func(n int) *discoveryv3.Resource {
						return parties.Item(fmt.Sprint(pool, part, "-", n), "")
					})
					if err := v.SendMsg(r); err != nil {
						return err
					}
					if err := v.Acknowledged(topic); err != nil {
						return err
					}
				}
			}
		}},
		{"millions of exports", "of its exports are not imported", func(v *parties.Subscriber) error {
			return again(v, 50, "exports", func(i int) []*discoveryv3.Resource {
				return append(many(10_000, func(n int) *discoveryv3.Resource {
					return exported(fmt.Sprintf("evil/endless-%d-%d", i, n), i, "")
				}), parties.State(i))
			})
		}},
	}
}

func hostileParts() []attack {
	long, objects := strings.Repeat("x", 80<<10), strings.Repeat("{},", 80_000)+"{}"
	return []attack{
		{"exports of many parts without a part", "not up to date here", func(v *parties.Subscriber) error {
			return again(v, 20, "exports", func(i int) []*discoveryv3.Resource {
				return append(many(20, func(n int) *discoveryv3.Resource {
					return parties.Item(fmt.Sprintf("evil/headless-%d-%d", i, n),
						fmt.Sprintf(
							`{"epoch":1,"sequence":%d,"parts":1024,"entry":{"routingMode":"EndpointMode","podCIDRs":[%q]}}`, i, long))
				}), parties.State(i))
			})
		}},
		{"lists of empty objects", "not up to date here", func(v *parties.Subscriber) error {
			return again(v, 1, "exports", func(i int) []*discoveryv3.Resource {
				var list []*discoveryv3.Resource
				for n := range 8 {
					list = append(list,
						exported(fmt.Sprintf("evil/objects-%d-%d", i, n), i, `,"endpoints":[`+objects+`]`),
						exported(fmt.Sprintf("evil/parents-%d-%d", i, n), i, `,"parents":[`+objects+`]`),
						parties.Item(fmt.Sprintf("evil/parts-%d#%d", i, n), `{"epoch":1,"endpoints":[`+objects+`]}`))
				}
				return append(list,
					parties.Item(fmt.Sprintf("evil/parts-%d", i),
						`{"epoch":1,"parts":8,"entry":{"routingMode":"EndpointMode"}}`), parties.State(i))
			})
		}},
		{"deep ones", "not up to date here", func(v *parties.Subscriber) error {
			return again(v, 2, "exports", func(i int) []*discoveryv3.Resource {
				return append(many(20, func(n int) *discoveryv3.Resource {
					nested := strings.Repeat("\x81", 80<<10) // arrays in CBOR
					return parties.Item(fmt.Sprintf("evil/deep-%d-%d", i, n),
						"\xa1\x65entry\xa1\x69endpoints"+nested+"\x80")
				}), parties.State(i))
			})
		}},
		{"invalid items", "is not the name of a pool", func(v *parties.Subscriber) error {
			return again(v, 20, "exports", func(i int) []*discoveryv3.Resource {
				return append(many(20_000, func(n int) *discoveryv3.Resource {
					return parties.Item(fmt.Sprintf("None %d of %d\n%.200s", n, i, long), `{`)
				}), parties.State(i))
			})
		}},
		{"another state each time", "an update of it had no effect", func(v *parties.Subscriber) error {
			return again(v, 3000, "exports", func(i int) []*discoveryv3.Resource {
				return append(many(1, func(n int) *discoveryv3.Resource {
					return exported(fmt.Sprintf("evil/x-%d", i), i, `,"parts":[]`)
				}), parties.Item("", fmt.Sprintf(`{"uid":"u%d","epoch":1,"sequence":%d}`, i, -i)))
			})
		}},
		{"reports on imports of its own making", "", func(v *parties.Subscriber) error {
			return again(v, 30, "imports", func(i int) []*discoveryv3.Resource {
				return many(10_000, func(n int) *discoveryv3.Resource {
					return parties.Item(fmt.Sprintf("%d-%d-%.500s/default/chat", i, n, long), `{}`)
				})
			})
		}},
		{"loads without end", "", func(v *parties.Subscriber) error {
			block := strings.Repeat("AAAAAAAAAAE", 5000)
			return again(v, 20, "loads", func(i int) []*discoveryv3.Resource {
				return append(many(100, func(n int) *discoveryv3.Resource {
					return parties.Item(fmt.Sprintf("east/evil/unknown-%d", n),
						fmt.Sprintf(
							`{"least":-1e300,"servers":-5,"rate":1e300,"epoch":%d,"capacity":9007199254740993,"blocks":"%s","interval":-1}`, i, block[:len(block)/4*4]))
				}),
					parties.Item("good/default/good",
						`{"least":0,"servers":1000000,"rate":1e9,"counted":{"`+long+`":1}}`),
					parties.Item("east/default/good", `{"least":0,"servers":1000000,"rate":1e9,"interval":60000}`))
			})
		}},
		{"connections that end with a long message", "no connection to a peer", func(v *parties.Subscriber) error {
			_ = v.Send("exports", []*discoveryv3.Resource{parties.State(1)})
			return status.Error(codes.Internal, strings.Repeat("a long message\n", 200<<10))
		}},
	}
}

// attackTime is the longest duration of an attack that the subscriber does not end.
const attackTime = 1200 * time.Millisecond

func TestClusterSet_HostileMemberHarmsNoOther(t *testing.T) {
	attacks := hostileExports()
	evil := make([]*parties.Publisher, len(attacks))
	for i := range evil {
		evil[i] = parties.NewPublisher(t, fmt.Sprintf("evil-%d", i))
	}
	s := startSet(t, "", nil, evil...)
	traffic, before, peak := s.traffic(), s.rss(s.penstock), s.peak(s.penstock)
	logged := func(i int) (messages []string, has bool) {
		for _, line := range strings.Split(s.whole("penstock"), "\n") {
			if strings.Contains(line, "member "+evil[i].Name+": ") ||
				strings.Contains(line, evil[i].Listener.Addr().String()) {
				messages = append(messages, line)
			}
		}
		return messages,
			slices.ContainsFunc(messages, func(line string) bool { return strings.Contains(line, attacks[i].logged) })
	}
	for i, a := range attacks {
		began, log, peak := time.Now(), s.logSize("penstock"), s.peak(s.penstock)
		end := evil[i].Begin(a.do)
		s.Eventually(a.name, func() error {
			if err := s.penstock.Running(); err != nil {
				t.Fatalf("%s: %v", a.name, err)
			}
			if err := s.ask(http.MethodGet, "/good", ""); err != nil {
				t.Errorf("%s: the other member's pool: %v", a.name, err)
			}
			if evil[i].Rounds.Load() < 5 && time.Since(began) < attackTime {
				return errors.New("it goes on")
			}
			if _, has := logged(i); !has { // on a slow machine, the messages take longer
				return errors.New("it is not logged yet")
			}
			return nil
		})
		end()
		t.Logf("%s: %d rounds, %.0f MiB at the peak, %d bytes of log", a.name, evil[i].Rounds.Load(), peak(),
			s.logSize("penstock")-log)
	}
	if most := peak(); most > before+384 {
		t.Errorf("penstock had %.0f MiB before, and %.0f MiB at the peak, want at most %.0f",
			before, most, before+384)
	}
	measured.memory(s.within(s.penstock))
	if size := s.logSize("penstock"); size > 256<<10 {
		t.Errorf("penstock logged %d bytes, want at most %d", size, 256<<10)
	}
	for i, a := range attacks {
		if messages, has := logged(i); !has {
			t.Errorf("%s: got\n%.4000s\nwant a line with %q", a.name, strings.Join(messages, "\n"), a.logged)
		}
	}
	traffic.end()
}

// A member cannot direct requests to addresses outside its allowed ranges, and cannot act under
// another member's name.
func TestClusterSet_HostileMemberNamesNoAddressOfOthers(t *testing.T) {
	thief := parties.NewPublisher(t, "evil")
	s := startSet(t, "",
		map[string]string{"stolen.yaml": importRoute("evil", "stolen", "/stolen") + importGrant("evil")}, thief)
	traffic := s.traffic()
	stolen := at(s.server)
	thief.Begin(func(v *parties.Subscriber) error {
		list := []*discoveryv3.Resource{parties.State(1 << 30),
			parties.Item("default/good",
				fmt.Sprintf(
					`{"epoch":1,"sequence":%d,"entry":{"name":"good","routingMode":"ParentMode","parents":[{"service":[{"addresses":["127.0.0.1"],"ports":[{"number":%d}]}]}]}}`, 1<<30, stolen.port))}
		list = append(list,
			parties.Item("evil/stolen",
				fmt.Sprintf(
					`{"epoch":1,"sequence":%d,"entry":{"name":"good","routingMode":"EndpointMode","targetPorts":[{"number":%d}],"podCIDRs":["0.0.0.0/0","::/0"],
			"endpoints":[{"address":"127.0.0.1"},{"address":"::ffff:127.0.0.1"},{"address":"169.254.169.254"},{"address":"::ffff:a9fe:a9fe"},{"address":"64:ff9b::7f00:1"},{"address":"10.67.0.1"}],
			"endpointPicker":{"service":[{"addresses":["169.254.169.254","::ffff:127.0.0.1"],"ports":[{"number":%d}]}]}}}`, 1<<30, stolen.port, stolen.port)))
		return v.Publish("exports", list)
	})
	s.Eventually("it is logged what it may not name", func() error {
		text := s.log("penstock")
		for _, want := range []string{"default/good", "InferencePoolImport evil/stolen", "169.254.169.254",
			"InferencePoolImport default/good"} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("the log:\n%s\nwant something about %s", text, want)
			}
		}
		return nil
	})
	for range 50 {
		if err := s.ask(http.MethodGet, "/stolen", ""); err == nil {
			t.Error("its pool is served by a server of this cluster")
			break
		}
		if err := s.ask(http.MethodGet, "/good", ""); err != nil {
			t.Errorf("the other member's pool: %v", err)
			break
		}
	}
	for _, address := range []string{"169.254.169.254", "10.67.0.1", "a9fe:a9fe", "7f00:1", "ffff:127.0.0.1"} {
		if text := s.configured(); strings.Contains(text, address) {
			t.Errorf("Envoy has %s, want it without", address)
		}
	}
	traffic.end()
}

// exported is an item with an export. entry is "" or a comma and further fields.
func exported(name string, sequence int, entry string) *discoveryv3.Resource {
	return parties.Item(name,
		fmt.Sprintf(`{"epoch":1,"sequence":%d,"entry":{"routingMode":"EndpointMode"%s}}`, sequence, entry))
}
