package parties

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
)

// KVPublisher is a model server's ZMTP 3.0 connection to a subscriber.
type KVPublisher struct{ net.Conn }

// Greet sends the greeting and handshake of a PUB socket. It discards the subscriber's messages.
func (p KVPublisher) Greet() error {
	greeting := make([]byte, 64)
	greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, 3
	copy(greeting[12:], "NULL")
	ready := append([]byte("\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"), "\x08Identity\x00\x00\x00\x00"...)
	_, err := p.Write(append(append(greeting, 4, byte(len(ready))), ready...))
	go func() { _, _ = io.Copy(io.Discard, p) }() // ends with the connection
	return err
}

// Frame encodes a frame of a message; more is 1 if further frames follow.
func Frame(more byte, body []byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{2 | more}, uint64(len(body))), body...)
}

// Publish sends a batch of KV events.
func (p KVPublisher) Publish(topic string, seq uint64, batch []byte) error {
	_, err := p.Write(
		bytes.Join([][]byte{Frame(1, []byte(topic)), Frame(1, binary.BigEndian.AppendUint64(nil, seq)),
			Frame(0, batch)}, nil))
	return err
}
