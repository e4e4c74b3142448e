package federation

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/channel"
)

const (
	wantedTopic = "wanted"
	loadsTopic  = "loads"
	// loadTTL lets members receive a report that subscribe late.
	loadTTL   = 5 * time.Second
	maxWanted = 4096
	// maxLoadBlocks and maxSenders bound the lists of a report. maxSender bounds a sender's name,
	// and maxLoad bounds a report, in bytes.
	maxLoadBlocks = 4096
	maxSenders    = 64
	maxLoad       = 64 << 10
)

// Load is the load of a pool that a cluster reports to an importer.
type Load struct {
	Least   float64 // seconds until the first server of the pool could begin a new prompt
	Servers int
	Rate    float64 // prompt tokens that one server reads in a second; 0: unknown
	// Counted has, for each sender of the importer, the number of requests that arrived since
	// Epoch.
	Counted map[string]uint64
	Epoch   uint64
	// Blocks are prompt blocks recently sent to the pool by any cluster (selection.Report).
	Blocks   []uint64
	Capacity int // blocks that the pool's servers can cache together; 0: unknown
	Interval time.Duration
}

type load struct {
	Least    float64           `json:"least"`
	Servers  int               `json:"servers"`
	Rate     float64           `json:"rate,omitempty"`
	Counted  map[string]uint64 `json:"counted,omitempty"`
	Epoch    uint64            `json:"epoch"`
	Blocks   []byte            `json:"blocks,omitempty"` // eight bytes each, little endian
	Capacity int               `json:"capacity,omitempty"`
	Interval int64             `json:"interval"` // milliseconds
}

// Want requests the load of exactly these pools from members.
func (f *Federation) Want(list []objectid.Member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := make(map[objectid.Member]bool, len(list))
	var items []channel.Item
	for _, m := range list {
		if next[m] = true; !f.wants[m] {
			items = append(items, channel.Item{Key: m.String()})
		}
	}
	var gone []string
	for m := range f.wants {
		if !next[m] {
			gone = append(gone, m.String())
		}
	}
	f.wants = next
	f.wanted.Retract(gone...)
	f.wanted.Publish(items...)
}

// Wanted returns the pools whose load members request, without pools that are not exported to them.
func (f *Federation) Wanted() (out []objectid.Member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for address, pools := range f.askedFor {
		name := f.members[address].Name
		for p := range pools {
			if name != "" && f.audience.has(name, p) {
				out = append(out, objectid.Member{Member: name, Pool: p})
			}
		}
	}
	return out
}

func (f *Federation) receiveWanted(_ context.Context, in channel.Update) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if in.Disconnected || in.Snapshot {
		delete(f.askedFor, in.Peer)
	}
	if _, ok := f.members[in.Peer]; !ok || in.Disconnected {
		return nil
	}
	pools := f.askedFor[in.Peer]
	if pools == nil {
		pools = map[objectid.Pool]bool{}
		f.askedFor[in.Peer] = pools
	}
	var problems channel.Problems
	for _, it := range in.Items {
		p, err := memberPool(it.Key)
		if err == nil && len(pools) == maxWanted && !pools[p] {
			err = fmt.Errorf("it asks for the load of more than %d pools", maxWanted)
		}
		if err != nil {
			problems.Add(err)
			continue
		}
		pools[p] = true
	}
	for _, k := range in.Retracted {
		if p, err := memberPool(k); err == nil {
			delete(pools, p)
		}
	}
	return problems.Err()
}

// PublishLoad publishes the load of a pool to a member.
func (f *Federation) PublishLoad(to objectid.Member, l Load) error {
	wire := load{Least: l.Least, Servers: l.Servers, Rate: l.Rate, Counted: l.Counted, Epoch: l.Epoch,
		Capacity: l.Capacity, Interval: l.Interval.Milliseconds()}
	for _, b := range l.Blocks[:min(len(l.Blocks), maxLoadBlocks)] {
		wire.Blocks = binary.LittleEndian.AppendUint64(wire.Blocks, b)
	}
	value, err := encoding.Marshal(wire)
	if err != nil {
		return fmt.Errorf("the load of %s: %w", to.Pool, err)
	}
	f.loads.Publish(channel.Item{Key: to.String(), Value: value, TTL: loadTTL})
	return nil
}

func (f *Federation) receiveLoads(_ context.Context, in channel.Update) error {
	name := f.nameAt(in.Peer)
	if name == "" || f.cfg.Load == nil {
		return nil
	}
	var problems channel.Problems
	for _, it := range in.Items {
		p, err := memberPool(it.Key)
		from := objectid.Member{Member: name, Pool: p}
		if err == nil {
			f.mu.Lock()
			wanted := f.wants[from]
			f.mu.Unlock()
			if !wanted {
				continue
			}
			var l Load
			if l, err = decodeLoad(it.Value); err == nil {
				f.cfg.Load(from, l)
			}
		}
		if err != nil {
			problems.Addf("the load of %.200q: %w", it.Key, err)
		}
	}
	return problems.Err()
}

func decodeLoad(value []byte) (Load, error) {
	var wire load
	if len(value) > maxLoad {
		return Load{}, fmt.Errorf("it has %d bytes", len(value))
	}
	if err := decoding.Unmarshal(value, &wire); err != nil {
		return Load{}, err
	}
	if len(wire.Counted) > maxSenders || len(wire.Blocks)%8 != 0 || len(wire.Blocks) > 8*maxLoadBlocks {
		return Load{}, errors.New("it has too many senders or blocks, or a part of one")
	}
	out := Load{Least: wire.Least, Servers: wire.Servers, Rate: wire.Rate, Counted: wire.Counted, Epoch: wire.Epoch,
		Capacity: wire.Capacity,
		Interval: time.Duration(min(max(wire.Interval, 0), time.Minute.Milliseconds())) * time.Millisecond}
	for rest := wire.Blocks; len(rest) > 0; rest = rest[8:] {
		if b := binary.LittleEndian.Uint64(rest); b != 0 {
			out.Blocks = append(out.Blocks, b)
		}
	}
	return out, nil
}

// RoundTrip returns the round trip time of the connection to a member; 0 without a connection.
func (f *Federation) RoundTrip(member string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	for address, m := range f.members {
		if m.Name == member {
			return f.dialled.roundTrip(address)
		}
	}
	return 0
}
