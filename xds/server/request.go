package server

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// deltaRequest keeps names encoded: maps and strings of names would be most of the cost of a
// thousand reconnects.
type deltaRequest struct {
	text    string // validated message; names are substrings of it
	node    *corev3.Node
	url     string
	nonce   string
	nack    bool
	message string
	counts  [requestInitial + 1]int
}

const (
	requestNode        = 1
	requestTypeURL     = 2
	requestSubscribe   = 3
	requestUnsubscribe = 4
	requestInitial     = 5
	requestNonce       = 6
	requestError       = 7

	entryKey   = 1
	entryValue = 2
)

var (
	errTruncated = errors.New("a field is cut short")
	errGroup     = errors.New("a field of a type that xDS does not use")
	errNoUTF8    = errors.New("a name is not UTF-8")
)

func (r *deltaRequest) decode(data mem.BufferSlice) error {
	var b strings.Builder
	b.Grow(data.Len())
	for _, piece := range data {
		b.Write(piece.ReadOnlyData())
	}
	r.text = b.String()
	for rest := r.text; rest != ""; {
		f, err := nextField(&rest)
		if err == nil {
			err = r.take(f)
		}
		if err != nil {
			return fmt.Errorf("DeltaDiscoveryRequest: %w", err)
		}
	}
	return nil
}

func (r *deltaRequest) take(f field) error {
	if !f.text {
		return nil
	}
	switch f.number {
	case requestNode:
		if r.node == nil {
			r.node = &corev3.Node{}
		}
		return proto.UnmarshalOptions{Merge: true}.Unmarshal([]byte(f.value), r.node)
	case requestTypeURL:
		r.url = f.value
	case requestNonce:
		r.nonce = f.value
	case requestError:
		detail := &statuspb.Status{}
		err := proto.Unmarshal([]byte(f.value), detail)
		r.nack = true
		if detail.GetMessage() != "" {
			r.message = detail.GetMessage()
		}
		return err
	case requestInitial:
		r.counts[f.number]++
		for rest := f.value; rest != ""; {
			part, err := nextField(&rest)
			if err != nil {
				return err
			}
			if part.text && (part.number == entryKey || part.number == entryValue) && !utf8.ValidString(part.value) {
				return errNoUTF8
			}
		}
		return nil
	case requestSubscribe, requestUnsubscribe:
		r.counts[f.number]++
	default:
		return nil
	}
	if !utf8.ValidString(f.value) {
		return errNoUTF8
	}
	return nil
}

func (r *deltaRequest) names(number protowire.Number) iter.Seq[string] {
	if r.counts[number] == 0 {
		return nil
	}
	return func(yield func(string) bool) {
		for rest := r.text; rest != ""; {
			if f, _ := nextField(&rest); f.number == number && f.text && !yield(f.value) {
				return
			}
		}
	}
}

func (r *deltaRequest) initial() iter.Seq2[string, string] {
	if r.counts[requestInitial] == 0 {
		return nil
	}
	return r.entries
}

func (r *deltaRequest) entries(yield func(name, version string) bool) {
	for entry := range r.names(requestInitial) {
		var name, version string
		for entry != "" {
			switch f, _ := nextField(&entry); {
			case !f.text:
			case f.number == entryKey:
				name = f.value
			case f.number == entryValue:
				version = f.value
			}
		}
		if !yield(name, version) {
			return
		}
	}
}

type field struct {
	number protowire.Number
	text   bool
	value  string
}

func nextField(rest *string) (f field, err error) {
	s := *rest
	*rest = ""
	tag, n := varint(s)
	number, kind := protowire.DecodeTag(tag)
	if n == 0 || !number.IsValid() {
		return f, errTruncated
	}
	f.number, s = number, s[n:]
	size := uint64(0)
	switch kind {
	case protowire.BytesType:
		if size, n = varint(s); n == 0 {
			return f, errTruncated
		}
		s = s[n:]
		f.text = true
	case protowire.VarintType:
		if _, n = varint(s); n == 0 {
			return f, errTruncated
		}
		size = uint64(n)
	case protowire.Fixed32Type:
		size = 4
	case protowire.Fixed64Type:
		size = 8
	default:
		return f, errGroup
	}
	if size > uint64(len(s)) {
		return f, errTruncated
	}
	if f.text {
		f.value = s[:size]
	}
	*rest = s[size:]
	return f, nil
}

func varint(s string) (v uint64, n int) {
	for i := 0; i < len(s) && i < 10; i++ {
		b := s[i]
		if i == 9 && b > 1 {
			break // the number has more than 64 bits
		}
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}
