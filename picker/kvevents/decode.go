package kvevents

import (
	"errors"

	"github.com/penstock-project/penstock/picker/prefix"
)

var errBatch = errors.New("KV events: a batch is not the MessagePack of [timestamp, events, rank]")

type event struct {
	tag                                                   string
	hashes, parent, tokens, size, loraID, loraName, extra []byte
	medium, group                                         []byte
}

// Fields of events, in the order of an event's array. Newer engines append further fields.
var (
	storedFields = [...]string{"block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium",
		"lora_name", "extra_keys", "group_idx"}
	removedFields = [...]string{"block_hashes", "medium", "group_idx"}
)

const (
	blockStored      = "BlockStored"
	blockRemoved     = "BlockRemoved"
	allBlocksCleared = "AllBlocksCleared"
)

// decode calls f for each event of a batch. It skips events of unknown kinds.
func decode(batch []byte, f func(*event)) error {
	r := reader{p: batch}
	if head := r.head(); head.kind != array || head.n < 2 {
		return errBatch
	}
	r.skip()
	events := r.head()
	if events.kind != array {
		return errBatch
	}
	for range events.n {
		raw := r.skip()
		if r.bad {
			return errBatch
		}
		if e, ok := readEvent(raw); ok {
			f(&e)
		}
	}
	return nil
}

func readEvent(raw []byte) (e event, ok bool) {
	r := reader{p: raw}
	switch head := r.head(); head.kind {
	case array:
		return readArray(&r, int(head.n))
	case mapping:
		return readMap(&r, int(head.n))
	}
	return e, false
}

func readArray(r *reader, n int) (e event, ok bool) {
	if n == 0 {
		return e, false
	}
	var fields []string
	switch string(r.text()) {
	case blockStored:
		e.tag, fields = blockStored, storedFields[:]
	case blockRemoved:
		e.tag, fields = blockRemoved, removedFields[:]
	case allBlocksCleared:
		e.tag = allBlocksCleared
	default:
		return e, false
	}
	for _, name := range fields[:min(n-1, len(fields))] {
		e.set(name, r.skip())
	}
	return e, !r.bad
}

func readMap(r *reader, n int) (e event, ok bool) {
	for range n {
		name := r.text()
		if string(name) != "type" {
			e.set(string(name), r.skip())
			continue
		}
		switch string(r.text()) {
		case blockStored:
			e.tag = blockStored
		case blockRemoved:
			e.tag = blockRemoved
		case allBlocksCleared:
			e.tag = allBlocksCleared
		}
	}
	return e, !r.bad && e.tag != ""
}

func (e *event) set(name string, raw []byte) {
	if len(raw) == 0 || raw[0] == 0xc0 {
		return
	}
	switch name {
	case "block_hashes":
		e.hashes = raw
	case "parent_block_hash":
		e.parent = raw
	case "token_ids":
		e.tokens = raw
	case "block_size":
		e.size = raw
	case "lora_id":
		e.loraID = raw
	case "medium":
		e.medium = raw
	case "lora_name":
		e.loraName = raw
	case "extra_keys":
		e.extra = raw
	case "group_idx":
		e.group = raw
	}
}

func list(raw []byte) (r reader, n int) {
	r = reader{p: raw}
	if head := r.head(); head.kind == array {
		return r, int(head.n)
	}
	return reader{bad: true}, 0
}

func number(raw []byte) int {
	r := reader{p: raw}
	if head := r.head(); head.kind == integer && head.n < 1<<31 {
		return int(head.n)
	}
	return -1
}

func (r *reader) blockHash() (hash uint64, ok bool) {
	switch v := r.head(); v.kind {
	case integer:
		return v.n, true
	case text:
		return prefix.NameHash(r.take(int(v.n))), !r.bad
	case array:
		for range v.n { // the value may be a list, for example of several groups' hashes
			r.skip()
		}
	case mapping:
		for range 2 * v.n {
			r.skip()
		}
	}
	return 0, false
}

func (e *event) adapter() uint64 {
	if name := e.adapterName(); len(name) > 0 {
		return prefix.NameHash(name)
	}
	// The engine reports only the adapter's numeric ID. Requests have the adapter's name, so these
	// blocks match no request.
	if id := number(e.loraID); e.loraID != nil && id > 0 {
		return prefix.NameHash(append([]byte("\x00lora_id "), e.loraID...))
	}
	return 0
}

func (e *event) adapterName() []byte {
	if e.loraName == nil {
		return nil
	}
	r := reader{p: e.loraName}
	return r.text()
}
