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
	// loadTTL is how long a report is sent to a member that subscribes late.
	loadTTL = 5 * time.Second
	// maxWanted bounds the pools whose load one member asks for.
	maxWanted = 4096
	// maxLoadBlocks and maxSenders bound a report, maxSender the name of a sender in bytes, and
	// maxLoad a report in bytes.
	maxLoadBlocks = 4096
	maxSenders    = 64
	maxSender     = 128
	maxLoad       = 64 << 10
)

// Load is what a cluster reports of a pool to one member that imports it.
type Load struct {
	Least   float64 // seconds until a server of the pool begins a prompt that arrives now
	Servers int     // that take requests
	Rate    float64 // at which one of them reads prompts, in tokens a second; 0: not known
	// Counted is how many requests of each sender of the member have arrived, since this cluster
	// counts (Epoch).
	Counted map[string]uint64
	Epoch   uint64
	// Blocks of prompts that were sent to the pool recently, by any cluster (selection.Report).
	Blocks   []uint64
	Capacity int           // how many blocks its servers cache together; 0: not known
	Interval time.Duration // until the next report
}

// load is the wire form of a Load.
type load struct {
	Least    float64           `json:"least"`
	Servers  int               `json:"servers"`
	Rate     float64           `json:"rate,omitempty"`
	Counted  map[string]uint64 `json:"counted,omitempty"`
	Epoch    uint64            `json:"epoch"`
	Blocks   []byte            `json:"blocks,omitempty"` // eight bytes each, little endian
	Capacity int               `json:"capacity,omitempty"`
	Interval int64             `json:"interval"` // in milliseconds
}

// Want asks members for the load of pools, and of no others.
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

// Wanted returns the pools whose load members ask for: of those that are exported to them.
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

// receiveWanted notes which loads a member asks for. One that is away asks for none.
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
func (f *Federation) PublishLoad(to objectid.Member, is Load) error {
	wire := load{Least: is.Least, Servers: is.Servers, Rate: is.Rate, Counted: is.Counted, Epoch: is.Epoch,
		Capacity: is.Capacity, Interval: is.Interval.Milliseconds()}
	for _, b := range is.Blocks[:min(len(is.Blocks), maxLoadBlocks)] {
		wire.Blocks = binary.LittleEndian.AppendUint64(wire.Blocks, b)
	}
	value, err := encoding.Marshal(wire)
	if err != nil {
		return fmt.Errorf("the load of %s: %w", to.Pool, err)
	}
	f.loads.Publish(channel.Item{Key: to.String(), Value: value, TTL: loadTTL})
	return nil
}

// receiveLoads passes on what a member reports of the pools whose load was asked for.
func (f *Federation) receiveLoads(_ context.Context, in channel.Update) error {
	f.mu.Lock()
	m, ok := f.members[in.Peer]
	f.mu.Unlock()
	if !ok || f.cfg.Load == nil {
		return nil
	}
	var problems channel.Problems
	for _, it := range in.Items {
		p, err := memberPool(it.Key)
		of := objectid.Member{Member: m.Name, Pool: p}
		if err == nil {
			f.mu.Lock()
			wanted := f.wants[of]
			f.mu.Unlock()
			if !wanted {
				continue
			}
			var is Load
			if is, err = decodeLoad(it.Value); err == nil {
				f.cfg.Load(of, is)
			}
		}
		if err != nil {
			problems.Addf("the load of %.200q: %w", it.Key, err)
		}
	}
	return problems.Err()
}

// decodeLoad reads a report. Figures are the member's own: selection brings them into range.
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
		if b := binary.LittleEndian.Uint64(rest); b != 0 { // no hash is
			out.Blocks = append(out.Blocks, b)
		}
	}
	return out, nil
}

// RoundTrip is how long a packet takes to a member and back, by its connection; 0 while there is
// none.
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
