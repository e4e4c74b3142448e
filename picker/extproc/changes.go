package extproc

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Bounds of what a remote picker may change in a request.
const (
	maxChangedHeaders = 64
	maxChangedBytes   = 32 << 10 // of names and values
	// maxBodyGrowth is how much longer a body may become, in bytes: by the token IDs of a long prompt.
	maxBodyGrowth = 4 << 20
)

// Changes are what a remote picker changes in a request, beside naming endpoints.
type Changes struct {
	set    []headerChange
	remove []string
	body   []byte
	// replaced: the request has body instead of its own.
	replaced bool
	bytes    int // of names and values
}

// headerChange is an envoy.config.core.v3.HeaderValueOption.
type headerChange struct {
	name, value string
	action      uint64
	append      *bool // the field that action replaces
	keepEmpty   bool
}

const maxAppendAction = 3

// connectionHeaders decide about the connection and how a message is read, ownHeaders are the gateway's own. No remote picker changes either.
var (
	connectionHeaders = []string{"host", "content-length", "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "trailers",
		"transfer-encoding", "upgrade", "http2-settings", "expect"}
	ownHeaders = []string{headerModel, keyDestination, keyServed, keySubset}
)

// reserved reports whether a header has a meaning of its own for every gateway. The name is in lower case.
func reserved(name string) bool {
	return strings.HasPrefix(name, "x-envoy-") || strings.HasPrefix(name, "x-penstock-") || slices.Contains(connectionHeaders, name)
}

// changeable reports whether a remote picker may change a header.
func (n *Names) changeable(name string) bool {
	if name == "" || reserved(name) || slices.Contains(ownHeaders, name) || name == strings.ToLower(n.Destination) {
		return false
	}
	for i := range len(name) { // pseudo-headers have a colon
		if c := name[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return true
}

var errManyChanges = errors.New("it changes too many headers")

// count bounds the changes.
func (c *Changes) count(bytes int) error {
	if c.bytes += bytes; c.bytes > maxChangedBytes || len(c.set)+len(c.remove) >= maxChangedHeaders {
		return errManyChanges
	}
	return nil
}

// add adds a HeaderMutation.
func (c *Changes) add(mutation []byte, names *Names) error {
	return fields(mutation, func(num protowire.Number, val []byte, _ uint64, typ protowire.Type) error {
		if typ != protowire.BytesType {
			return nil
		}
		switch num {
		case 1:
			h, err := readHeaderChange(val)
			if err != nil || !names.changeable(h.name) || strings.ContainsAny(h.value, "\r\n\x00") || h.action > maxAppendAction {
				return err
			}
			if err := c.count(len(h.name) + len(h.value)); err != nil {
				return err
			}
			c.set = append(c.set, h)
		case 2:
			name := strings.ToLower(string(val))
			if !names.changeable(name) {
				return nil
			}
			if err := c.count(len(name)); err != nil {
				return err
			}
			c.remove = append(c.remove, name)
		}
		return nil
	})
}

func readHeaderChange(option []byte) (h headerChange, err error) {
	err = fields(option, func(num protowire.Number, val []byte, v uint64, typ protowire.Type) error {
		switch {
		case num == 1 && typ == protowire.BytesType:
			return fields(val, func(num protowire.Number, val []byte, _ uint64, typ protowire.Type) error {
				switch {
				case typ != protowire.BytesType:
				case num == 1:
					h.name = strings.ToLower(string(val))
				case len(val) > 0:
					h.value = string(val)
				}
				return nil
			})
		case num == 2 && typ == protowire.BytesType:
			set := false
			h.append = &set
			return fields(val, func(num protowire.Number, _ []byte, v uint64, typ protowire.Type) error {
				if num == 1 && typ == protowire.VarintType {
					set = v != 0
				}
				return nil
			})
		case num == 3 && typ == protowire.VarintType:
			h.action = v
		case num == 4 && typ == protowire.VarintType:
			h.keepEmpty = v != 0
		}
		return nil
	})
	return h, err
}

// headers writes into a HeaderMutation, whose writer goes from its end to its beginning.
func (c *Changes) headers(w *writer) {
	for _, name := range slices.Backward(c.remove) {
		w.str(2, name)
	}
	for _, h := range slices.Backward(c.set) {
		option := w.len()
		if h.keepEmpty {
			w.uint(4, 1)
		}
		if h.action > 0 {
			w.uint(3, h.action)
		}
		if h.append != nil {
			mark := w.len()
			if *h.append {
				w.uint(1, 1)
			}
			w.close(2, mark)
		}
		header := w.len()
		w.str(3, h.value) // raw_value; Envoy drops value
		w.str(1, h.name)
		w.close(1, header)
		w.close(1, option)
	}
}

// sets reports whether a header is set.
func (c *Changes) sets(name string) bool {
	return slices.ContainsFunc(c.set, func(h headerChange) bool { return h.name == name })
}

// returned is the body that a remote picker sends back, compared with what it was sent: only a changed one takes memory.
type returned struct {
	sent    mem.BufferSlice
	size    int // of sent
	same    int // the bytes so far that are those of sent
	own     []byte
	changed bool
	begun   bool
	take    func(bytes int) bool // of the memory for bodies
}

func (b *returned) write(chunk []byte) error {
	b.begun = true
	if !b.changed {
		if b.matches(chunk) {
			b.same += len(chunk)
			return nil
		}
		if !b.change() {
			return errBodies
		}
	}
	switch {
	case len(b.own)+len(chunk) > b.size+maxBodyGrowth:
		return fmt.Errorf("it makes a body of %d bytes longer by more than %d", b.size, maxBodyGrowth)
	case !b.take(len(chunk)):
		return errBodies
	}
	b.own = append(b.own, chunk...)
	return nil
}

var errBodies = errors.New("this picker holds as many bodies as it may, and the remote picker has changed this one")

// change begins a body of its own.
func (b *returned) change() bool {
	if !b.take(b.same) {
		return false
	}
	b.changed = true
	b.own = make([]byte, 0, b.size+1024)
	for _, buf := range b.sent {
		data := buf.ReadOnlyData()
		b.own = append(b.own, data[:min(len(data), b.same-len(b.own))]...)
	}
	return true
}

// end is the end of the body.
func (b *returned) end() error {
	if !b.changed && b.same < b.size && !b.change() {
		return errBodies
	}
	if b.changed && len(b.own) == 0 {
		return errors.New("it removes the body")
	}
	return nil
}

// matches reports whether a chunk is what follows in the body that was sent.
func (b *returned) matches(chunk []byte) bool {
	at := b.same
	for _, buf := range b.sent {
		data := buf.ReadOnlyData()
		if at >= len(data) {
			at -= len(data)
			continue
		}
		n := min(len(data)-at, len(chunk))
		if string(data[at:at+n]) != string(chunk[:n]) {
			return false
		}
		if chunk, at = chunk[n:], 0; len(chunk) == 0 {
			return true
		}
	}
	return len(chunk) == 0
}
