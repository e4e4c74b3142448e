package selection

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"time"
)

// membersOf returns a member for each set bit.
func membersOf(bits byte) (list []Member) {
	for i := range 8 {
		if bits>>i&1 == 1 {
			list = append(list, Member{
				Name: string(rune('a' + i)), RoundTrip: time.Duration(i) * 10 * time.Millisecond,
			})
		}
	}
	return list
}

// reportOf decodes a report from 12 bytes.
func reportOf(b []byte) Report {
	v := math.Float64frombits(binary.LittleEndian.Uint64(b[1:9]))
	return Report{Least: v, Rate: v * 1000, Servers: int(int8(b[9])), Counted: uint64(b[10]),
		Epoch: uint64(b[11] % 3), Interval: time.Duration(b[11]) * 10 * time.Millisecond, Capacity: int(int8(b[10])),
		Blocks: chain(uint64(b[9]%4), int(b[10]%80))}
}

// FuzzLeastLoad_EveryMemberIsRankedOnce makes members join, leave, report and decline, and requests
// begin and end, in any order. Each result of Rank must have all members once, with costs that are
// not NaN, and memory must stay bounded.
func FuzzLeastLoad_EveryMemberIsRankedOnce(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07"))
	f.Add([]byte{0, 7, 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 2, 3, 2, 9, 3, 1, 4, 1, 5, 200, 2, 1})
	f.Fuzz(func(t *testing.T, ops []byte) {
		draw := uint64(1)
		l := New(Config{Local: "c", Margin: DefaultMargin, End: end, Blocks: 64,
			Random: func() uint64 { draw = draw*6364136223846793005 + 1442695040888963407; return draw }})
		var members []string
		var leases []Lease
		now := start
		take := func(n int) []byte {
			if len(ops) < n {
				ops = append(ops, make([]byte, n)...)
			}
			part := ops[:n]
			ops = ops[n:]
			return part
		}
		for len(ops) > 0 && len(leases) < 4000 {
			switch op := take(1)[0]; op % 6 {
			case 0:
				list := membersOf(take(1)[0])
				l.SetMembers(list)
				members = members[:0]
				for _, m := range list {
					members = append(members, m.Name)
				}
			case 1:
				b := take(12)
				l.Report(now, string(rune('a'+b[0]%8)), reportOf(b))
			case 2:
				b := take(2)
				p := Prompt{Tokens: int(b[0]) * 100, Chain: chain(uint64(b[1]%4), int(b[0]%40))}
				ranked := l.Rank(now, p, nil)
				got := names(ranked)
				slices.Sort(got)
				if !slices.Equal(got, members) {
					t.Fatalf("ranked: got %v, want %v", got, members)
				}
				for i, c := range ranked {
					if !(c.Cost >= 0 && c.Cost < 1e9) || c.Uncached < 0 ||
						i > 0 && c.Barred == "" && (ranked[i-1].Barred != "" || ranked[i-1].Cost > c.Cost) {
						t.Fatalf("got %+v, want by cost, barred ones last", ranked)
					}
				}
				if len(ranked) > 0 {
					leases = append(leases, l.Begin(now, ranked[0], p))
				}
			case 3:
				if n := len(leases); n > 0 {
					leases[int(take(1)[0])%n].FirstByte()
				}
			case 4:
				if n := len(leases); n > 0 {
					if b := take(1)[0]; b%2 == 0 {
						leases[int(b)%n].End()
					} else {
						leases[int(b)%n].Declined(now)
					}
				}
			case 5:
				now = now.Add(time.Duration(take(1)[0]) * 50 * time.Millisecond)
			}
		}
		for i := range leases {
			leases[i].End()
		}
		for _, s := range l.Standings(now) {
			n := l.find(s.Name).books.pending
			if s.InFlight != 0 || s.Blocks > 64 || n < 0 || n > maxUnreported {
				t.Fatalf("%+v and %d unreported, want InFlight 0, Blocks at most 64, 0 to %d unreported", s, n,
					maxUnreported)
			}
		}
	})
}
