package modelserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"time"

	"github.com/penstock-project/penstock/picker/zmtp"
)

// replayed is the number of messages that can be sent again: vLLM's default.
const replayed = 10_000

// kvEvents publishes changes of the KV cache as vLLM does: events at a PUB socket, and earlier
// events again at a ROUTER socket. A nil *kvEvents publishes nothing.
type kvEvents struct {
	topic     string
	publisher zmtp.Publisher

	mu   sync.Mutex
	next uint64
	sent [][]byte // last batches; the last one has sequence number next-1
}

func (e *kvEvents) removed(hashes []uint64) {
	if e != nil && len(hashes) > 0 {
		b := packText(packArray(nil, 3), "BlockRemoved")
		e.publish(packText(packNumbers(b, hashes), "GPU"))
	}
}

// stored publishes a prompt's new blocks. known is how many of its first blocks were cached before.
func (e *kvEvents) stored(hashes []uint64, known int, tokens []uint32, lora, salt string) {
	if e == nil || known == len(hashes) {
		return
	}
	b := packText(packArray(nil, 9), "BlockStored")
	b = packNumbers(b, hashes[known:])
	if known == 0 {
		b = append(b, packNil)
	} else {
		b = packNumber(b, hashes[known-1])
	}
	b = packNumbers(b, tokens[known*blockSize:len(hashes)*blockSize])
	b = packNumber(b, blockSize)
	b = append(b, packNil) // lora_id
	b = packText(b, "GPU")
	if lora == "" {
		b = append(b, packNil)
	} else {
		b = packText(b, lora)
	}
	b = packArray(b, len(hashes)-known) // extra_keys
	for i := known; i < len(hashes); i++ {
		var keys []string
		if lora != "" {
			keys = append(keys, lora)
		}
		if salt != "" && i == 0 {
			keys = append(keys, salt)
		}
		if len(keys) == 0 {
			b = append(b, packNil)
			continue
		}
		b = packArray(b, len(keys))
		for _, k := range keys {
			b = packText(b, k)
		}
	}
	e.publish(b)
}

func (e *kvEvents) cleared() {
	if e != nil {
		e.publish(packText(packArray(nil, 1), "AllBlocksCleared"))
	}
}

func (e *kvEvents) publish(event []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	batch := append(packArray(nil, 3), 0xcb)
	batch = binary.BigEndian.AppendUint64(batch, math.Float64bits(float64(time.Now().UnixNano())/1e9))
	batch = append(packArray(batch, 1), event...)
	batch = packNumber(batch, 0) // data-parallel rank
	e.publisher.Send([]byte(e.topic), binary.BigEndian.AppendUint64(nil, e.next), batch)
	e.next++
	if e.sent = append(e.sent, batch); len(e.sent) > replayed {
		e.sent = e.sent[1:]
	}
}

func (e *kvEvents) replay(ctx context.Context, nc net.Conn) {
	c, err := zmtp.Handshake(nc, zmtp.Router, zmtp.Limits{Message: 4 << 10})
	if err != nil {
		return
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	for {
		frames, err := c.Read()
		if err != nil || len(frames) != 2 || len(frames[1]) != 8 {
			return
		}
		from := binary.BigEndian.Uint64(frames[1])
		e.mu.Lock()
		first := e.next - uint64(len(e.sent))
		from = min(max(from, first), e.next)
		batches := e.sent[from-first:]
		e.mu.Unlock()
		for i, batch := range batches {
			if c.Write(nil, binary.BigEndian.AppendUint64(nil, from+uint64(i)), batch) != nil {
				return
			}
		}
		if c.Write(nil, binary.BigEndian.AppendUint64(nil, math.MaxUint64), nil) != nil {
			return
		}
	}
}

func acceptAll(ctx context.Context, listener net.Listener, each func(context.Context, net.Conn)) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		nc, err := listener.Accept()
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return nil
		} else if err != nil {
			return fmt.Errorf("sim: %w", err)
		}
		all.Go(func() { each(ctx, nc) })
	}
}

const packNil = 0xc0

func packArray(b []byte, n int) []byte {
	if n < 16 {
		return append(b, 0x90|byte(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n))
}

func packText(b []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(len(text))), text...)
}

func packNumber(b []byte, n uint64) []byte {
	if n < 0x80 {
		return append(b, byte(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), n)
}

func packNumbers[T uint32 | uint64](b []byte, list []T) []byte {
	b = packArray(b, len(list))
	for _, n := range list {
		b = packNumber(b, uint64(n))
	}
	return b
}
