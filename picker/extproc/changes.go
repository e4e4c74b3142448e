package extproc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	maxChangedHeaders = 64
	maxChangedBytes   = 32 << 10 // sum of names and values
	// maxBodyGrowth bounds how much longer a remote picker may make a body, in bytes. The picker
	// may add the token IDs of a long prompt.
	maxBodyGrowth = 4 << 20
)

// Changes are a remote picker's changes to a request, except its choice of endpoints.
type Changes struct {
	headers  *extprocv3.HeaderMutation
	body     []byte
	replaced bool
	bytes    int
}

// Headers that a remote picker may not change.
var (
	connectionHeaders = []string{"host", "content-length", "connection", "keep-alive", "proxy-authenticate",
		"proxy-authorization", "proxy-connection", "te", "trailer", "trailers",
		"transfer-encoding", "upgrade", "http2-settings", "expect"}
	ownHeaders = []string{headerModel, keyDestination, keyServed, keySubset}
)

func reserved(name string) bool {
	return strings.HasPrefix(name, "x-envoy-") || strings.HasPrefix(name, "x-penstock-") ||
		slices.Contains(connectionHeaders, name)
}

func (n *Names) changeable(name string) bool {
	if name == "" || reserved(name) || slices.Contains(ownHeaders, name) || name == strings.ToLower(n.Destination) {
		return false
	}
	for i := range len(name) { // also rejects pseudo-headers
		if c := name[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return true
}

var errManyChanges = errors.New("it changes too many headers")

func (c *Changes) count(bytes int) error {
	c.bytes += bytes
	n := len(c.headers.GetSetHeaders()) + len(c.headers.GetRemoveHeaders())
	if c.bytes > maxChangedBytes || n >= maxChangedHeaders {
		return errManyChanges
	}
	if c.headers == nil {
		c.headers = &extprocv3.HeaderMutation{}
	}
	return nil
}

func (c *Changes) add(m *extprocv3.HeaderMutation, names *Names) error {
	for _, option := range m.GetSetHeaders() {
		name, value := strings.ToLower(option.GetHeader().GetKey()), headerValue(option.GetHeader())
		_, known := corev3.HeaderValueOption_HeaderAppendAction_name[int32(option.GetAppendAction())]
		if !names.changeable(name) || bytes.ContainsAny(value, "\r\n\x00") || !known {
			continue
		}
		if err := c.count(len(name) + len(value)); err != nil {
			return err
		}
		own := &corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: name, RawValue: value}, // Envoy does not read the field Value
			AppendAction: option.GetAppendAction(), KeepEmptyValue: option.GetKeepEmptyValue(),
		}
		//lint:ignore SA1019 Envoy still reads the field that append_action replaces
		if before := option.GetAppend(); before != nil {
			own.Append = wrapperspb.Bool(before.GetValue()) //lint:ignore SA1019 as above
		}
		c.headers.SetHeaders = append(c.headers.SetHeaders, own)
	}
	for _, name := range m.GetRemoveHeaders() {
		if name = strings.ToLower(name); !names.changeable(name) {
			continue
		}
		if err := c.count(len(name)); err != nil {
			return err
		}
		c.headers.RemoveHeaders = append(c.headers.RemoveHeaders, name)
	}
	return nil
}

func (c *Changes) write(w *writer) {
	if c.headers != nil {
		b, _ := proto.Marshal(c.headers) // no error, because names are in ASCII
		w.text(string(b))
	}
}

func (c *Changes) sets(name string) bool {
	return slices.ContainsFunc(c.headers.GetSetHeaders(), func(h *corev3.HeaderValueOption) bool {
		return h.GetHeader().GetKey() == name
	})
}

// returned is the body that a remote picker sends back. It keeps a copy only if this body differs
// from the sent one.
type returned struct {
	sent    mem.BufferSlice
	size    int
	same    int // bytes of the unchanged beginning
	own     []byte
	changed bool
	begun   bool
	take    func(bytes int) bool
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

func (b *returned) end() error {
	if !b.changed && b.same < b.size && !b.change() {
		return errBodies
	}
	if b.changed && len(b.own) == 0 {
		return errors.New("it removes the body")
	}
	return nil
}

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
