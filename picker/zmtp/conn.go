package zmtp

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

const (
	Pub    = "PUB"
	Sub    = "SUB"
	Dealer = "DEALER"
	Router = "ROUTER"
)

var peers = map[string][]string{
	Pub:    {Sub, "XSUB"},
	Sub:    {Pub, "XPUB"},
	Dealer: {Router, Dealer, "REP"},
	Router: {Dealer, Router, "REQ"},
}

const (
	// DefaultMessage is the default of Limits.Message, in bytes.
	DefaultMessage = 16 << 20
	defaultTimeout = 10 * time.Second

	maxFrames  = 16
	maxCommand = 4 << 10
	large      = 64 << 10
	step       = 64 << 10
	buffer     = 4 << 10

	commandsPerMinute = 1200 // a peer sends at most one heartbeat a second
)

const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

var (
	ErrTooLarge = errors.New("ZMTP: a message is larger than its limit")
	errFlags    = errors.New("ZMTP: a frame has unknown flags")
	errFrames   = errors.New("ZMTP: a message has too many frames")
	errCommands = fmt.Errorf("ZMTP: the peer sends more than %d commands a minute", commandsPerMinute)
)

// Limits are the limits of connections. A zero field means its default.
type Limits struct {
	Message int           // maximum size of a message, in bytes; default DefaultMessage
	Timeout time.Duration // of the handshake, and of each message; default 10 s
	// Large is a semaphore: its capacity is how many connections may read a large message at the
	// same time. Own is such a semaphore for the connections of one peer. nil means no limit.
	Large, Own chan struct{}
}

// Conn is a connection after its handshake. One Read and one Write may run concurrently.
type Conn struct {
	nc     net.Conn
	limits Limits
	reader *bufio.Reader
	memory []byte
	frames [][]byte
	ends   []int
	large  bool // the connection holds a place in Limits.Large and Limits.Own

	commands int
	since    time.Time // start of the minute that commands counts
}

var greeting = func() [64]byte {
	var g [64]byte
	g[0], g[9], g[10] = 0xff, 0x7f, 3
	copy(g[12:], "NULL")
	return g
}()

// Handshake makes a Conn from a TCP connection, which it closes on failure. socketType is this
// end's ZeroMQ socket type, such as SUB.
func Handshake(nc net.Conn, socketType string, limits Limits) (*Conn, error) {
	limits.Message, limits.Timeout = cmp.Or(limits.Message, DefaultMessage), cmp.Or(limits.Timeout, defaultTimeout)
	c := &Conn{nc: nc, limits: limits, reader: bufio.NewReaderSize(nc, buffer)}
	if err := c.handshake(socketType); err != nil {
		_ = nc.Close()
		return nil, err
	}
	return c, nil
}

func (c *Conn) handshake(socketType string) error {
	if err := c.nc.SetDeadline(time.Now().Add(c.limits.Timeout)); err != nil {
		return err
	}
	if _, err := c.nc.Write(greeting[:]); err != nil {
		return err
	}
	var theirs [64]byte
	if err := c.full(theirs[:]); err != nil {
		return fmt.Errorf("ZMTP greeting: %w", err)
	}
	mechanism, _, _ := bytes.Cut(theirs[12:32], []byte{0})
	switch {
	case theirs[0] != 0xff || theirs[9] != 0x7f:
		return errors.New("ZMTP greeting: the peer does not speak ZMTP")
	case theirs[10] < 3:
		return fmt.Errorf("ZMTP greeting: the peer has version %d; at least 3 is needed", theirs[10])
	case string(mechanism) != "NULL":
		return fmt.Errorf("ZMTP greeting: the peer demands the mechanism %q; only NULL is supported", mechanism)
	}
	ready := property(property([]byte("\x05READY"), "Socket-Type", socketType), "Identity", "")
	if err := c.write([]byte{flagCommand, byte(len(ready))}, ready); err != nil {
		return err
	}
	flags, size, err := c.header()
	if err != nil {
		return err
	}
	if flags&flagCommand == 0 || size > maxCommand {
		return errors.New("ZMTP handshake: the peer does not begin with a command")
	}
	body := make([]byte, size)
	if err := c.full(body); err != nil {
		return err
	}
	properties, ok := bytes.CutPrefix(body, []byte("\x05READY"))
	if !ok {
		return fmt.Errorf("ZMTP handshake: the peer sends %.64q in place of READY", body)
	}
	if other := find(properties, "Socket-Type"); !slices.Contains(peers[socketType], other) {
		return fmt.Errorf("ZMTP handshake: the peer is a %.16q socket; %s needs one of %v", other, socketType,
			peers[socketType])
	}
	return c.nc.SetDeadline(time.Time{})
}

func property(b []byte, name, value string) []byte {
	b = append(append(b, byte(len(name))), name...)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(value))), value...)
}

func find(b []byte, name string) string {
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n+4 {
			return ""
		}
		key, size := b[1:1+n], int(binary.BigEndian.Uint32(b[1+n:]))
		if b = b[1+n+4:]; len(b) < size {
			return ""
		}
		if string(bytes.ToLower(key)) == string(bytes.ToLower([]byte(name))) {
			return string(b[:size])
		}
		b = b[size:]
	}
	return ""
}

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// Close ends the connection, and a Read in progress.
func (c *Conn) Close() error { return c.nc.Close() }

// Subscribe subscribes to a PUB socket's messages whose first frame begins with topic.
func (c *Conn) Subscribe(topic string) error { return c.Write(append([]byte{1}, topic...)) }

// Read returns the frames of the next message, valid until the next Read or Free. After an error,
// the connection is unusable.
func (c *Conn) Read() (frames [][]byte, err error) {
	c.memory, c.ends = c.memory[:0], c.ends[:0]
	if c.release(); cap(c.memory) > large {
		c.memory = nil
	}
	if err := c.await(); err != nil {
		return nil, err
	}
	for {
		flags, size, err := c.header()
		switch {
		case err != nil:
			return nil, err
		case flags&flagCommand != 0:
			if err := c.command(size); err != nil {
				return nil, err
			}
			if len(c.ends) == 0 { // between messages, so the command is a heartbeat
				if err := c.nc.SetReadDeadline(time.Time{}); err != nil {
					return nil, err
				}
				if err := c.await(); err != nil {
					return nil, err
				}
			}
			continue
		case len(c.ends) == maxFrames:
			return nil, errFrames
		case size > uint64(c.limits.Message-len(c.memory)):
			return nil, fmt.Errorf("%w of %d bytes", ErrTooLarge, c.limits.Message)
		}
		if err := c.body(int(size)); err != nil {
			return nil, err
		}
		c.ends = append(c.ends, len(c.memory))
		if flags&flagMore == 0 {
			break
		}
	}
	c.frames = c.frames[:0]
	from := 0
	for _, end := range c.ends {
		c.frames = append(c.frames, c.memory[from:end:end])
		from = end
	}
	return c.frames, c.nc.SetReadDeadline(time.Time{})
}

func (c *Conn) await() error {
	if _, err := c.reader.Peek(1); err != nil {
		return err
	}
	return c.nc.SetReadDeadline(time.Now().Add(c.limits.Timeout))
}

// place takes a place in Own and then in Large. So connections of one peer that wait for Own hold
// no place in Large.
func (c *Conn) place() error {
	wait := time.NewTimer(c.limits.Timeout)
	defer wait.Stop()
	for i, places := range c.places() {
		if places == nil {
			continue
		}
		select {
		case places <- struct{}{}:
		case <-wait.C:
			if i > 0 && c.limits.Own != nil {
				<-c.limits.Own
			}
			return fmt.Errorf("ZMTP: %d other connections read large messages", cap(places))
		}
	}
	c.large = true
	return nil
}

func (c *Conn) places() [2]chan struct{} { return [...]chan struct{}{c.limits.Own, c.limits.Large} }

func (c *Conn) release() {
	if !c.large {
		return
	}
	c.large = false
	for _, places := range c.places() {
		if places != nil {
			<-places
		}
	}
}

// Free releases the memory of the last message, before a long pause between reads.
func (c *Conn) Free() {
	c.release()
	c.memory, c.frames = nil, nil
}

func (c *Conn) header() (flags byte, size uint64, err error) {
	var head [9]byte
	if err := c.full(head[:2]); err != nil {
		return 0, 0, err
	}
	if flags = head[0]; flags > flagMore|flagLong|flagCommand || flags&flagCommand != 0 && flags&flagMore != 0 {
		return 0, 0, errFlags
	}
	if flags&flagLong == 0 {
		return flags, uint64(head[1]), nil
	}
	if err := c.full(head[2:]); err != nil {
		return 0, 0, err
	}
	return flags, binary.BigEndian.Uint64(head[1:]), nil
}

func (c *Conn) body(size int) error {
	if !c.large && len(c.memory)+size > large {
		if err := c.place(); err != nil {
			return err
		}
	}
	for size > 0 {
		n := min(size, step)
		from := len(c.memory)
		c.memory = slices.Grow(c.memory, n)[:from+n]
		if err := c.full(c.memory[from:]); err != nil {
			return err
		}
		size -= n
	}
	return nil
}

func (c *Conn) command(size uint64) error {
	if size > maxCommand {
		return fmt.Errorf("%w of %d bytes for commands", ErrTooLarge, maxCommand)
	}
	if now := time.Now(); now.Sub(c.since) >= time.Minute {
		c.commands, c.since = 0, now
	}
	if c.commands++; c.commands > commandsPerMinute {
		return errCommands
	}
	body := make([]byte, size)
	if err := c.full(body); err != nil {
		return err
	}
	context, ok := bytes.CutPrefix(body, []byte("\x04PING"))
	if !ok || len(context) < 2 {
		return nil
	}
	pong := append([]byte("\x04PONG"), context[2:min(len(context), 18)]...)
	return c.write([]byte{flagCommand, byte(len(pong))}, pong)
}

// Write sends a message.
func (c *Conn) Write(frames ...[]byte) error {
	parts := make([][]byte, 0, 2*len(frames))
	for i, f := range frames {
		flags := byte(0)
		if i < len(frames)-1 {
			flags = flagMore
		}
		if len(f) < 256 {
			parts = append(parts, []byte{flags, byte(len(f))}, f)
		} else {
			parts = append(parts, binary.BigEndian.AppendUint64([]byte{flags | flagLong}, uint64(len(f))), f)
		}
	}
	return c.write(parts...)
}

func (c *Conn) write(parts ...[]byte) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(c.limits.Timeout)); err != nil {
		return err
	}
	b := net.Buffers(parts)
	_, err := b.WriteTo(c.nc)
	return err
}

func (c *Conn) full(p []byte) error {
	for n := 0; n < len(p); {
		read, err := c.reader.Read(p[n:])
		if n += read; err != nil && n < len(p) {
			return err
		}
	}
	return nil
}
